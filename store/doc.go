// Package store is the workflow database: one SQLite file per user installation that holds every durable
// fact of every project.
//
//	s, err := store.Open(ctx, path, store.Options{AppVersion: "1.2.3"})
//	claim, err := store.Do(ctx, s, store.Permit{Actor: host, Expected: store.AnyRevision},
//	    store.ClaimLease{Resource: "run:r1", TTLMS: 60_000})
//
// Everything that writes is a [Command] and goes through [Do], the write contract. Everything that reads is
// a method of [Queries], which a [Store] and a [Reader] share; a Reader has no way to write.
//
// One file is one domain: its commands, its reads and its SQL.
package store
