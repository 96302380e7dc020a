-- Content: canonical JSON and text, stored once under the SHA-256 of its bytes.

CREATE TABLE blobs (
  digest     BLOB    NOT NULL PRIMARY KEY,
  media_type TEXT    NOT NULL,
  length     INTEGER NOT NULL,  -- in bytes
  bytes      BLOB    NOT NULL,
  created_at INTEGER NOT NULL,

  CONSTRAINT blobs_digest     CHECK (length(digest) = 32),
  CONSTRAINT blobs_media_type CHECK (media_type GLOB '[a-z]*/[a-z]*'),
  CONSTRAINT blobs_length     CHECK (length = length(bytes))
) STRICT;

-- Where the size of the file comes from, without reading the content.
CREATE INDEX blobs_by_length ON blobs (length);

-- INSERT OR REPLACE would delete the old row without a word. Equal content is fine: it adopts the row.
CREATE TRIGGER blobs_no_replace
BEFORE INSERT ON blobs
WHEN EXISTS (SELECT 1
               FROM blobs
              WHERE digest = NEW.digest
                AND (media_type, length, bytes) <> (NEW.media_type, NEW.length, NEW.bytes))
BEGIN
  SELECT RAISE(ABORT, 'blobs: other content is stored under this digest');
END;

CREATE TRIGGER blobs_no_update
BEFORE UPDATE ON blobs
BEGIN
  SELECT RAISE(ABORT, 'blobs: content is immutable');
END;

CREATE TRIGGER blobs_no_delete
BEFORE DELETE ON blobs
BEGIN
  SELECT RAISE(ABORT, 'blobs: content is immutable');
END;
