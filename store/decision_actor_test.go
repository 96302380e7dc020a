package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

func (a *asking) submitModel(d *Decision, actor Actor, claim *Claim, id, response string) (*DecisionAnswer, error) {
	done, err := Do(context.Background(), a.Store, as(actor, claim), SubmitModelAnswer{d.ID, id, d.RequestDigest, json.RawMessage(response)})
	return done.Result, err
}

// A model's answer can't resolve a protected decision, whichever way it is sent and whoever owns the run; the
// database would not take it either.
func TestModelAnswerToProtectedDecision(t *testing.T) { // D9
	f := newFlow(t)
	a := f.askingBy(pi1, "r1")
	d := a.ask("q", nil)
	before := dump(t, a.Path())
	for _, actor := range []Actor{pi1, host1} {
		_, err := Do(t.Context(), a.Store, as(actor, a.claim), SubmitDecision{d.ID, "s", d.RequestDigest, json.RawMessage(approve), "", ""})
		wantCode(t, err, schema.Denied)
	}
	_, err := a.submitModel(d, pi1, a.claim, "s", approve)
	wantCode(t, err, schema.Denied)
	if e := cause[*DeniedError](t, err); e.Class != SessionActor || !strings.Contains(e.Reason, "protected") {
		t.Errorf("%+v", e)
	}
	_, err = a.submitModel(d, ann, nil, "s", approve) // a person has a way of their own
	wantCode(t, err, schema.Denied)
	if dump(t, a.Path()) != before {
		t.Error("a refused answer changed the database")
	}
	forged := DecisionSubmission{Decision: d.ID, Sequence: 1, ID: "s", RequestDigest: d.RequestDigest, Choice: "approve", Response: d.Subject, Actor: pi1, Outcome: AnswerWon}
	mustCreate(t, a.Store, "c1")
	_, err = Do(t.Context(), a.Store, Permit{Actor: session1, Expected: 1}, touch{Channel: "c1", row: func(tx *sqlite.Tx) error { return insertSubmission(tx, forged) }})
	if err == nil || !strings.Contains(err.Error(), "only a person can resolve a protected decision") {
		t.Errorf("%v", err)
	}
	if v := a.view(d.ID); v.Status != DecisionPending {
		t.Errorf("%+v", v)
	}
}

// Where people have said so, the owner of the run may answer for a model.
func TestModelAnswerToUnprotectedDecision(t *testing.T) { // D8, D9
	f := newFlow(t)
	a := f.askingBy(pi1, "r1")
	q := a.question()
	q.Unprotected = true
	d := mustDo(t, a.Store, Permit{Actor: pi1, Claim: a.claim}, q).Result
	if d.Protected {
		t.Errorf("%+v", d)
	}
	_, err := a.submitModel(d, pi2, nil, "s0", approve)
	wantCode(t, err, schema.Denied)
	rejected, err := a.submitModel(d, pi1, a.claim, "s1", `{"choice":"no"}`)
	if err != nil || rejected.Submission.Outcome != AnswerRejected {
		t.Errorf("%+v, %v", rejected, err)
	}
	won, err := a.submitModel(d, pi1, a.claim, "s2", approve)
	if err != nil || won.Submission.Outcome != AnswerWon || won.Submission.Actor != pi1 || won.Decision.Resolution.Actor != pi1 {
		t.Errorf("%+v, %v", won, err)
	}
	a.clock.move(25 * time.Hour) // its successor repeats what it can't know to have arrived
	next := mustClaim(t, a.Store, pi2, runID("r1"), time.Hour)
	again, err := a.submitModel(d, pi2, next, "s2", approve)
	if err != nil || again.Submission.Sequence != 2 || a.view(d.ID).Answers != 2 {
		t.Errorf("%+v, %v", again, err)
	}
}

// comeIn puts an event into the inbox of a channel, as its adapter does.
func (a *asking) comeIn(ch, event string) {
	a.Helper()
	res, err := a.Resource(context.Background(), channel(ch))
	if err != nil {
		a.Fatal(err)
	}
	payload := json.RawMessage(`{"from":"ann"}`)
	mustDo(a, a.Store, Permit{Actor: session1, Expected: res.Revision}, touch{Channel: ch, Data: payload, row: func(tx *sqlite.Tx) error {
		_, err := tx.Exec(`INSERT INTO channel_inbox (channel_id, external_event_id, event_type, payload_blob, received_at)
			SELECT ?1, ?2, 'callback', digest, 1 FROM blobs WHERE bytes = ?3`, ch, event, []byte(payload))
		return err
	}})
}

// A person answers through a channel: its owner sends what came in, once, and gains nothing else.
func TestChannelAnswer(t *testing.T) { // D9, D13, W5
	a := newAsking(t)
	mustCreate(t, a.Store, "tg", "other")
	a.comeIn("tg", "cb1")
	adapter := Actor{ChannelActor, "tg-1"}
	claim := mustClaim(t, a.Store, adapter, channel("tg"), time.Minute)
	d := a.ask("q", nil)
	submit := func(actor Actor, claim *Claim, id, ch, event, response string) (Done[*DecisionAnswer], error) {
		return Do(context.Background(), a.Store, as(actor, claim), SubmitDecision{d.ID, id, d.RequestDigest, json.RawMessage(response), ch, event})
	}
	for name, tc := range map[string]struct {
		actor     Actor
		claim     *Claim
		ch, event string
		code      schema.Code
	}{
		"no channel":             {adapter, claim, "", "", schema.Invalid},
		"no event":               {adapter, claim, "tg", "", schema.Invalid},
		"nothing came in":        {adapter, claim, "tg", "cb9", schema.NotFound},
		"no claim":               {adapter, nil, "tg", "cb1", schema.Denied},
		"another channel":        {adapter, claim, "other", "cb1", schema.Denied},
		"another adapter":        {Actor{ChannelActor, "tg-2"}, claim, "tg", "cb1", schema.Denied},
		"a session with a claim": {pi1, claim, "tg", "cb1", schema.Denied},
	} {
		if _, err := submit(tc.actor, tc.claim, "tg:cb1", tc.ch, tc.event, approve); schema.CodeOf(err) != tc.code {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	done, err := submit(adapter, claim, "tg:cb1", "tg", "cb1", approve)
	if err != nil || done.Result.Submission.Outcome != AnswerWon || done.Result.Submission.ExternalEvent != "cb1" {
		t.Fatalf("%+v, %v", done, err)
	}
	events, err := a.Events(t.Context(), EventFilter{Resource: d.Resource()}, 0, 10)
	if err != nil || len(events) != 2 || events[1].Actor != adapter || events[1].Generation != 1 {
		t.Errorf("%+v, %v", events, err)
	}
	// The provider delivers the callback again, to the adapter's successor.
	a.clock.move(time.Hour)
	successor := Actor{ChannelActor, "tg-2"}
	claim = mustClaim(t, a.Store, successor, channel("tg"), time.Minute)
	if again, err := submit(successor, claim, "tg:cb1", "tg", "cb1", approve); err != nil || !again.Adopted {
		t.Errorf("%+v, %v", again, err)
	}
	// The person taps another button of the message that is still on the screen.
	a.comeIn("tg", "cb2")
	late, err := submit(successor, claim, "tg:cb2", "tg", "cb2", `{"choice":"note"}`)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, late.Result.Err(), schema.AlreadyResolved)
	for name, err := range map[string]error{
		"cancel": second(Do(t.Context(), a.Store, as(successor, claim), CancelDecision{Decision: d.ID})),
		"park":   second(Do(t.Context(), a.Store, a.permit(successor, claim, "r1"), ParkRun{Run: "r1"})),
		"expire": second(Do(t.Context(), a.Store, as(successor, claim), ExpireDecision{d.ID})),
	} {
		if schema.CodeOf(err) != schema.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Pending decisions of an audience, page by page, the oldest first, and nothing of what they hold.
func TestPendingDecisions(t *testing.T) { // D8, V2
	a := newAsking(t)
	var want []string
	for i := range 7 {
		q := a.question()
		q.Key = fmt.Sprint("q", i)
		if i%3 == 2 {
			q.Audience = "others"
		}
		d := mustDo(t, a.Store, Permit{Actor: host1, Claim: a.claim}, q).Result
		if i%3 != 2 {
			want = append(want, d.ID)
		}
		if i%2 == 1 { // two share each moment
			a.clock.move(time.Second)
		}
	}
	collect := func(audience string) (ids []string, places []Place) {
		t.Helper()
		for after := (Place{}); ; {
			page, err := a.PendingDecisions(t.Context(), audience, after, 1+len(ids)%3)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				return ids, places
			}
			for _, d := range page {
				if d.Status != DecisionPending || audience != "" && d.Audience != audience {
					t.Errorf("%+v", d)
				}
				after = d.Place()
				ids, places = append(ids, d.ID), append(places, after)
			}
		}
	}
	got, places := collect(audience)
	if len(got) != len(want) || len(places) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i, id := range want {
		if !strings.Contains(strings.Join(got, " "), id) {
			t.Errorf("%s is missing", id)
		}
		if i > 0 && (places[i].At < places[i-1].At || places[i].At == places[i-1].At && places[i].ID <= places[i-1].ID) {
			t.Errorf("%v comes after %v", places[i], places[i-1])
		}
	}
	if all, _ := collect(""); len(all) != 7 {
		t.Errorf("all audiences: %v", all)
	}
	if none, _ := collect("nobody"); len(none) != 0 {
		t.Errorf("nobody: %v", none)
	}
	for _, id := range want {
		mustDo(t, a.Store, as(control, nil), CancelDecision{Decision: id})
	}
	if rest, _ := collect(audience); len(rest) != 0 {
		t.Errorf("resolved decisions are listed: %v", rest)
	}
	of, err := a.DecisionsOfRun(t.Context(), "r1", "q3", 1, 2)
	if err != nil || len(of) != 2 || of[0].Key != "q4" || of[1].Key != "q5" {
		t.Errorf("%+v, %v", of, err)
	}
	for _, limit := range []int{0, MaxPage + 1} {
		if _, err := a.PendingDecisions(t.Context(), audience, Place{}, limit); schema.CodeOf(err) != schema.Invalid {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	_, err = a.Decision(t.Context(), "dec_9")
	wantCode(t, err, schema.NotFound)
	_, err = a.AskedDecision(t.Context(), "dec_9")
	wantCode(t, err, schema.NotFound)
	_, err = a.Continuation(t.Context(), "con_9")
	wantCode(t, err, schema.NotFound)
}

// Each query finds its rows by an index, in order, however many there are.
func TestDecisionQueryPlans(t *testing.T) { // V2
	db := rawOpen(t, newPath(t))
	sorts := map[string]bool{selUnattended: true} // by the union of what is due
	for name, sql := range map[string]string{
		"selDecision": selDecision, "selPendingDecisions": selPendingDecisions, "selPendingDecisionsFor": selPendingDecisionsFor,
		"selDecisionsOfRun": selDecisionsOfRun, "selDueDecisions": selDueDecisions, "selAbandonedDecisions": selAbandonedDecisions,
		"selSubmission": selSubmission, "selSubmissions": selSubmissions, "selLastSubmission": selLastSubmission,
		"selContinuation": selContinuation, "selContinuationOfDecision": selContinuationOfDecision,
		"selContinuationsOfRun": selContinuationsOfRun, "selPendingContinuations": selPendingContinuations,
		"selAbandonedContinuations": selAbandonedContinuations, "selEffectsOfSource": selEffectsOfSource,
		"selLeftPending": selLeftPending, "selLeftApplying": selLeftApplying, "selUnattended": selUnattended, "selRunEnd": selRunEnd, "selInboxEvent": selInboxEvent, "selAttemptEnd": selAttemptEnd,
	} {
		plan := queryPlan(t, db, name, sql)
		for line := range strings.Lines(plan) {
			step := strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(step, "SCAN json_each"), strings.HasPrefix(step, "SCAN due"): // rows of our own
			case strings.HasPrefix(step, "SCAN d USING INDEX human_decisions_pending"): // all of them are wanted
			case strings.HasPrefix(step, "SCAN c USING INDEX continuations_pending"):
			case strings.HasPrefix(step, "SCAN"), strings.Contains(step, "TEMP B-TREE") && !sorts[sql]:
				t.Errorf("%s: %s\n%s", name, step, plan)
			}
		}
	}
}
