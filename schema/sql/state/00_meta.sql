-- Workflow state: every durable fact of every project of one user installation.
--
-- How to read it. Times end in _at and are UTC epoch milliseconds. Ids are text. A column that ends in _blob
-- is the SHA-256 of content in blobs; other digests end in _digest. Flags begin with is_.
-- An aggregate is versioned, owned and audited as a resource; its resource_id is computed from its own id.
-- Foreign keys that are deferred let one transaction write an event before the row that it tells of.
-- Triggers only refuse: none of them changes a row. They compute a NEW resource_id themselves, because SQLite
-- may not know a computed column of NEW before an update.

CREATE TABLE schema_meta (
  name        TEXT    NOT NULL PRIMARY KEY,
  version     INTEGER NOT NULL,
  ddl_digest  BLOB    NOT NULL,  -- SHA-256 of the text that made this schema
  app_version TEXT    NOT NULL,  -- the program that created the file
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,

  CONSTRAINT schema_meta_one_row CHECK (name = 'pi-workflows.state'),
  CONSTRAINT schema_meta_version CHECK (version = 1),
  CONSTRAINT schema_meta_digest  CHECK (length(ddl_digest) = 32)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER schema_meta_no_delete
BEFORE DELETE ON schema_meta
BEGIN
  SELECT RAISE(ABORT, 'schema_meta: the identity of the database cannot be deleted');
END;

CREATE TABLE projects (
  project_id TEXT    NOT NULL PRIMARY KEY,  -- derived from the path
  path       TEXT    NOT NULL UNIQUE,       -- absolute, with symbolic links resolved
  created_at INTEGER NOT NULL,

  CONSTRAINT projects_id   CHECK (project_id <> ''),
  CONSTRAINT projects_path CHECK (path GLOB '/*' OR path GLOB '[A-Za-z]:[\/]*')
) STRICT;

CREATE TRIGGER projects_no_update
BEFORE UPDATE ON projects
BEGIN
  SELECT RAISE(ABORT, 'projects: a project is immutable; another path is another project');
END;

CREATE TRIGGER projects_no_delete
BEFORE DELETE ON projects
BEGIN
  SELECT RAISE(ABORT, 'projects: a project cannot be deleted');
END;
