package abi

// Version is what pistate_abi_version of both store modules returns. It is the version of their exports and of
// the three import modules below, whose names carry it too.
const Version = 1

// The import modules of store.wasm and store-sqlite.wasm. ../STORE.md says what their functions do; SQLImports,
// HostImports and FileImports give their signatures.
const (
	SQLModule  = "pistate_sql_v1"  // store.wasm alone: a database that the host's SQLite has open
	HostModule = "pistate_host_v1" // both: processes, directories, and the tree of a Pi session
	FileModule = "pistate_file_v1" // store-sqlite.wasm alone: one file and its companions
)

// The exports of both store modules, besides Memory and Initialize. StoreExports gives their signatures. Read,
// Fetch, Write, Drop, CompareAndWrite, BranchKey and ErrorMessage are exported too, as an extension imports
// them.
const (
	ABIVersion    = "pistate_abi_version" // the version of the ABI
	Alloc         = "alloc"               // memory for the caller
	Free          = "free"                // give memory back
	Open          = "open"                // open the database
	Close         = "close"               // close it
	CallJSON      = "call"                // carry out a request in its JSON form
	At            = "at"                  // the place of the calls that follow
	Entries       = "entries"             // add entries to the instance's own tree of a session
	Forget        = "forget"              // throw such a tree away
	ErrorDocument = "error_document"      // the last error as JSON
)

// The functions of SQLModule and FileModule that have a name of their own; Open, Close, Read and Write are the
// others.
const (
	Prepare       = "prepare"
	Finalize      = "finalize"
	Run           = "run"
	Next          = "next"
	Reset         = "reset"
	Script        = "script"
	InTransaction = "in_transaction"
	Unresolved    = "unresolved"
	InPlace       = "in_place"
	Beside        = "beside"
	ErrorText     = "error"

	Delete   = "delete"
	Exists   = "exists"
	Size     = "size"
	Truncate = "truncate"
	Sync     = "sync"
	Lock     = "lock"
)

// The functions of HostModule, besides BranchKey and ErrorText.
const (
	PID          = "pid"
	ProcessLives = "process_lives"
	Directory    = "directory"
	ParentKey    = "parent_key"
)

// The tree argument of At.
const (
	TreeNone int32 = 0 // none: session scope needs none
	TreeHost int32 = 1 // the host's, asked through HostModule
	TreeOwn  int32 = 2 // the one that Entries has built
)

// Results of SQLModule and FileModule that are no numbers of a code: minus an extended result code of SQLite
// down to SQLiteLast, and below that a code's number on top of CodeBase.
const (
	SQLiteLast = -65535
	CodeBase   = -65536
)

// The tags of packed values: the rows of Run and Next, the parameters of Run, what Beside gives and what
// Entries takes. All numbers are little endian.
const (
	TagNull    byte = 0 // nothing follows
	TagInteger byte = 1 // an int64
	TagReal    byte = 2 // a float64
	TagText    byte = 3 // a uint32 length, and that many bytes of UTF-8
	TagBlob    byte = 4 // a uint32 length, and that many bytes
)

// StoreExports returns the functions that both store modules export, in the order of STORE.md, without
// Initialize. Those that give bytes return an i64, their length or a negative number; the others an i32, OK
// or a negative number.
func StoreExports() []Func {
	return []Func{
		function(ABIVersion, I32),
		function(Alloc, I32, "len"),
		function(Free, 0, "ptr"),
		function(Open, I32, "ptr", "len"),
		function(Close, I32),
		function(CallJSON, I64, "ptr", "len"),
		function(At, I32, "plugin_ptr", "plugin_len", "session_ptr", "session_len", "leaf_ptr", "leaf_len", "tree"),
		function(Read, I64, "scope", "buf", "cap"),
		function(Fetch, I64, "buf", "cap"),
		function(Write, I32, "scope", "ptr", "len"),
		function(Drop, I32, "scope"),
		function(CompareAndWrite, I32, "scope", "old_ptr", "old_len", "new_ptr", "new_len"),
		function(BranchKey, I64, "buf", "cap"),
		function(ErrorMessage, I64, "buf", "cap"),
		function(ErrorDocument, I64, "buf", "cap"),
		function(Entries, I32, "session_ptr", "session_len", "ptr", "len"),
		function(Forget, I32, "session_ptr", "session_len"),
	}
}

// SQLImports returns the functions of SQLModule, in the order of STORE.md.
func SQLImports() []Func {
	return []Func{
		function(Open, I32, "mode"),
		function(Close, I32, "db"),
		function(Prepare, I32, "db", "sql_ptr", "sql_len"),
		function(Finalize, I32, "stmt"),
		function(Run, I64, "stmt", "params_ptr", "params_len", "buf", "cap"),
		function(Next, I64, "stmt", "buf", "cap"),
		function(Reset, I32, "stmt"),
		function(Script, I32, "db", "sql_ptr", "sql_len"),
		function(InTransaction, I32, "db"),
		function(InPlace, I32, "db"),
		function(Unresolved, I32, "db"),
		function(Beside, I64, "buf", "cap"),
		function(ErrorText, I64, "buf", "cap"),
	}
}

// HostImports returns the functions of HostModule, in the order of STORE.md.
func HostImports() []Func {
	return []Func{
		function(PID, I32),
		function(ProcessLives, I32, "pid"),
		function(Directory, I64, "ptr", "len", "buf", "cap"),
		function(BranchKey, I64, "leaf_ptr", "leaf_len", "buf", "cap"),
		function(ParentKey, I64, "key_ptr", "key_len", "buf", "cap"),
		function(ErrorText, I64, "buf", "cap"),
	}
}

// FileImports returns the functions of FileModule, in the order of STORE.md.
func FileImports() []Func {
	return []Func{
		function(Open, I32, "file", "create"),
		function(Close, I32, "file"),
		function(Delete, I32, "file"),
		function(Exists, I32, "file"),
		function(Size, I64, "file"),
		wide(function(Truncate, I32, "file", "size"), 1),
		function(Sync, I32, "file"),
		wide(function(Read, I32, "file", "ptr", "len", "offset"), 3),
		wide(function(Write, I32, "file", "ptr", "len", "offset"), 3),
		function(Lock, I32, "level"),
		function(InPlace, I32),
		function(Beside, I64, "buf", "cap"),
		function(ErrorText, I64, "buf", "cap"),
	}
}

// wide makes one parameter of a function an i64.
func wide(f Func, param int) Func {
	f.Params[param].Type = I64
	return f
}
