//go:build !wasip1

package sqlite

import (
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// harmless are the PRAGMAs that a guest may use, and the values that it may give them; nil is any. The others
// reach files elsewhere, give up the promises of the write contract, lock out other processes, or let a
// guest damage what SQLite relies on.
var harmless = map[string][]string{
	// What it needs to know.
	"application_id": nil, "user_version": nil, "schema_version": {""}, "data_version": {""},
	"page_size": {""}, "page_count": {""}, "freelist_count": {""}, "encoding": {""}, "compile_options": {""},
	"database_list": {""}, "collation_list": {""}, "function_list": {""}, "table_list": nil,
	"table_info": nil, "table_xinfo": nil, "index_list": nil, "index_info": nil, "index_xinfo": nil, "foreign_key_list": nil,
	"foreign_key_check": nil, "integrity_check": nil, "quick_check": nil,

	// The settings of a writer (S2).
	"journal_mode": {"", "wal"}, "synchronous": {"", "2", "3", "full", "extra"}, "foreign_keys": nil,
	"recursive_triggers": nil, "temp_store": {"", "2", "memory"}, "wal_autocheckpoint": nil, "journal_size_limit": nil,
	"busy_timeout": nil, "query_only": {"", "1", "on", "true", "yes"}, "trusted_schema": {"", "0", "off", "false", "no"},
	"cell_size_check": {"", "1", "on", "true", "yes"}, "defer_foreign_keys": nil, "locking_mode": {"", "normal"},

	// Care of its own database.
	"wal_checkpoint": nil, "optimize": nil, "analysis_limit": nil, "cache_size": {""}, "max_page_count": nil,
}

// bounded are the functions that a guest may use: those whose time grows no faster than what they are given and
// return. SQLite looks at a context between its instructions, and a call is one: that of instr or replace with
// texts of megabytes would go on for days. What else this process has registered is not for guests either.
var bounded = strings.Fields(`
	abs ceil ceiling char coalesce concat concat_ws floor format glob hex ifnull if iif last_insert_rowid changes total_changes
	length likelihood likely lower max min mod nullif octet_length printf quote random randomblob round sign sqlite_version
	substr substring trunc typeof unicode unlikely upper zeroblob
	avg count group_concat string_agg sum total
	row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value
	-> ->> json jsonb json_array json_array_length json_error_position json_extract jsonb_extract json_group_array json_group_object
	json_object json_quote json_type json_valid
	current_date current_time current_timestamp date datetime julianday strftime time unixepoch`)

// maxPattern bounds the pattern of GLOB, in bytes: its time grows with it times the length of the text.
const maxPattern = 32

// authorize decides what a guest's statements may do, when they are prepared.
func (n *loan) authorize(action sqlite3.AuthorizerActionCode, name, value, _, _ string) sqlite3.AuthorizerReturnCode {
	switch action {
	case sqlite3.AUTH_ATTACH, sqlite3.AUTH_DETACH, // VACUUM attaches, too, and needs as much room again
		sqlite3.AUTH_CREATE_VTABLE, sqlite3.AUTH_DROP_VTABLE: // modules are whatever this process has registered
		return sqlite3.AUTH_DENY
	case sqlite3.AUTH_FUNCTION:
		if !slices.Contains(bounded, strings.ToLower(value)) {
			return sqlite3.AUTH_DENY
		}
	case sqlite3.AUTH_PRAGMA:
		values, known := harmless[strings.ToLower(name)]
		value = strings.ToLower(value)
		if !known || values != nil && !slices.Contains(values, value) {
			return sqlite3.AUTH_DENY
		}
		// Whoever switches a database to WAL holds it for its own.
		n.claims = n.claims || strings.EqualFold(name, "journal_mode") && value == "wal"
	}
	return sqlite3.AUTH_OK
}
