package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// ControllersCmd lists controller resources.
type ControllersCmd struct {
	lister
	Project string `placeholder:"ID|DIR" help:"Only those of this project, by its id or its directory."`
	Deleted bool   `help:"Those that were deleted too."`
	After   string `placeholder:"UID" help:"Begin after this one, as the last line of a longer list says."`
}

// Help is shown below the flags.
func (*ControllersCmd) Help() string {
	return `A controller looks after things: each has a spec, which says how it is to be, and a status, which says how it is. GENERATION counts the specs, SEEN is the one that the status is about. A resource that is due has nobody at work on it.`
}

// Run prints one line per controller resource.
func (c *ControllersCmd) Run(env *cli.Env) error {
	project, err := parseProject(c.Project)
	if err != nil {
		return err
	}
	filter := store.ControllerFilter{Deleted: c.Deleted}
	list := listing[store.ControllerView]{
		read: func(q *store.Queries, after *store.ControllerView, limit int) (views []store.ControllerView, err error) {
			if filter.Project, err = project.find(env, q); err != nil {
				return nil, err
			}
			var from store.Controller
			if after != nil {
				from = after.Controller
			} else if c.After != "" {
				v, err := q.Controller(env, c.After)
				if err != nil {
					return nil, err
				}
				from = v.Controller
			}
			controllers, err := q.Controllers(env, filter, from, limit)
			for i := 0; err == nil && i < len(controllers); i++ {
				var v store.ControllerView
				v, err = q.Controller(env, controllers[i].UID)
				views = append(views, v)
			}
			return views, err
		},
		row: func(v store.ControllerView) []any {
			return []any{v.Name, v.Key, status(v.Phase), v.Generation, v.Observed, c.when(env, v.Queue.AvailableAt), controllerNote(env, c.output, v)}
		},
		line: func(v store.ControllerView) any { return v },
		next: func(v store.ControllerView) string { return "--after " + v.UID },
	}
	t := env.Table("NAME", "KEY", "PHASE", "GENERATION", "SEEN", "NEXT", "NOTE").Cut("NOTE", "KEY").Optional("GENERATION", "SEEN")
	return list.print(env, c.lister, t)
}

// controllerNote says what else is to be known of a controller resource.
func controllerNote(env *cli.Env, o output, v store.ControllerView) string {
	var notes []string
	if v.DeletionRequestedAt != 0 && v.DeletedAt == 0 {
		notes = append(notes, "to be deleted")
		if len(v.Finalizers) > 0 {
			notes[0] += " after " + strings.Join(v.Finalizers, ", ")
		}
	}
	if v.DeletedAt != 0 {
		notes = append(notes, "deleted "+o.when(env, v.DeletedAt))
	}
	if v.Queue.Errors > 0 {
		notes = append(notes, count(v.Queue.Errors, "error")+", the last "+v.Queue.ErrorCode)
	}
	for _, s := range slices.Sorted(maps.Keys(v.Unsettled)) {
		notes = append(notes, fmt.Sprintf("%s %s", count(v.Unsettled[s], "effect"), s))
	}
	if v.Unnoted > 0 {
		notes = append(notes, count(v.Unnoted, "run")+" not noted")
	}
	return strings.Join(notes, "; ")
}

// ControllerCmd shows one controller resource.
type ControllerCmd struct {
	workflowDB
	output
	Name    string `arg:"" help:"The name of the controller."`
	Key     string `arg:"" help:"The key of the thing that it looks after."`
	Project string `placeholder:"ID|DIR" help:"The project, if several have such a one."`
}

// controllerJSON is a controller resource with the runs that it asked for.
type controllerJSON struct {
	store.ControllerView
	Workflows []store.ControllerWorkflow      `json:"workflows"`
	Contents  map[store.Digest]store.BlobInfo `json:"contents"` // of the digests above; with --private also what it is
}

// Run prints all about one controller resource.
func (c *ControllerCmd) Run(env *cli.Env) error {
	project, err := parseProject(c.Project)
	if err != nil {
		return err
	}
	var doc controllerJSON
	err = c.view(env, func(q *store.Queries) (err error) {
		doc, err = c.read(env, q, project)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return c.print(env, doc)
	}
	env.Fact("controller", doc.Name+" "+doc.Key)
	env.Fact("uid", doc.UID)
	env.Fact("project", doc.Project)
	env.Fact("phase", status(doc.Phase))
	env.Say("note", controllerNote(env, c.output, doc.ControllerView))
	if doc.Owner != nil {
		env.Fact("owner", ownerText(env, c.output, *doc.Owner))
	}
	env.Fact("next", c.when(env, doc.Queue.AvailableAt))
	env.Fact("spec", fmt.Sprintf("generation %d, %s", doc.Generation, c.content(doc.Contents, doc.Spec)))
	if doc.Status != nil {
		env.Fact("status", fmt.Sprintf("of generation %d, %s", doc.Observed, c.content(doc.Contents, *doc.Status)))
	}
	env.Fact("finalizers", strings.Join(doc.Finalizers, ", "))
	if len(doc.Workflows) == 0 {
		return nil
	}
	env.Section("workflows")
	t := env.Table("REQUEST", "RUN", "STATUS", "ASKED", "INPUT", "OUTPUT").Cut("REQUEST")
	for _, w := range doc.Workflows {
		t.Row(w.Key, w.Run, status(w.Status), c.when(env, w.CreatedAt), short(&w.Input), short(w.Output))
	}
	return t.Flush()
}

func (c *ControllerCmd) read(env *cli.Env, q *store.Queries, named projectArg) (doc controllerJSON, err error) {
	project, err := named.find(env, q)
	if err != nil {
		return doc, err
	}
	found, err := q.Controllers(env, store.ControllerFilter{Project: project, Deleted: true}, store.Controller{Name: c.Name, Key: c.Key}, store.MaxPage)
	if err != nil {
		return doc, err
	}
	uid, err := c.choose(found)
	if err != nil {
		return doc, err
	}
	if doc.ControllerView, err = q.Controller(env, uid); err != nil {
		return doc, err
	}
	if doc.Workflows, err = q.ControllerWorkflows(env, uid, "", store.MaxPage); err != nil {
		return doc, err
	}
	digests := []store.Digest{doc.Spec}
	if doc.Status != nil {
		digests = append(digests, *doc.Status)
	}
	doc.Contents, err = q.BlobInfos(env, c.Private, digests...)
	return doc, err
}

// choose returns the uid of the live resource of that name and key, or else of the last that there was.
func (c *ControllerCmd) choose(found []store.Controller) (uid string, err error) {
	var live, ended []store.Controller
	for _, f := range found {
		switch {
		case f.Name != c.Name || f.Key != c.Key:
		case f.DeletedAt == 0:
			live = append(live, f)
		default:
			ended = append(ended, f)
		}
	}
	switch {
	case len(live) > 1:
		return "", schema.Errorf(schema.Invalid, "%d projects have a controller resource %s %s: say which with --project", len(live), c.Name, c.Key)
	case len(live) == 1:
		return live[0].UID, nil
	case len(ended) == 0:
		return "", schema.Errorf(schema.NotFound, "there is no controller resource %s %s", c.Name, c.Key)
	}
	last := slices.MaxFunc(ended, func(a, b store.Controller) int { return int(a.DeletedAt - b.DeletedAt) })
	return last.UID, nil
}

// content says what a blob is, and shows it with --private.
func (o output) content(infos map[store.Digest]store.BlobInfo, digest store.Digest) string {
	info := infos[digest]
	text := fmt.Sprintf("%s %s", cli.Size(info.Length), short(&digest))
	switch {
	case info.Text != nil:
		text += " " + *info.Text
	case info.Value != nil:
		text += " " + string(info.Value)
	}
	return text
}

// ownerText says who owns something.
func ownerText(env *cli.Env, o output, l store.Lease) string {
	if l.Owner == nil {
		return "nobody"
	}
	if l.Expired {
		return fmt.Sprintf("nobody; the lease of %s expired %s", o.actor(*l.Owner), o.when(env, l.ExpiresAt))
	}
	until := "until " + o.when(env, l.ExpiresAt)
	if !o.UTC {
		until = "for another " + cli.Span(l.ExpiresAt.Time().Sub(env.Now()))
	}
	return fmt.Sprintf("%s, %s unless renewed", o.actor(*l.Owner), until)
}
