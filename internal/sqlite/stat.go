package sqlite

// Stat is what a status command says of a database's files. Sizes are in bytes.
type Stat struct {
	Bytes     int64 `json:"bytes"`      // the database file; of all pages where no file can be seen
	WALBytes  int64 `json:"wal_bytes"`  // its -wal file; 0 if there is none, or none that can be seen
	PageSize  int64 `json:"page_size"`  // of one page
	Pages     int64 `json:"pages"`      // of the snapshot, those that are only in the WAL included
	FreePages int64 `json:"free_pages"` // of Pages, those that hold nothing and will be used again
}

// Stat reads the sizes of the database. The page counts belong to the snapshot; the files are measured now.
func (rx *Rx) Stat() (Stat, error) {
	var s Stat
	for _, p := range []struct {
		name  string
		value *int64
	}{{"page_size", &s.PageSize}, {"page_count", &s.Pages}, {"freelist_count", &s.FreePages}} {
		var err error
		if *p.value, err = rx.c.pragma(p.name); err != nil {
			return Stat{}, err
		}
	}
	err := rx.c.measure(&s)
	return s, err
}
