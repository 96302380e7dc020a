package host

import (
	"time"

	"pistate/schema"
)

// Limits bound what an extension may use (G3). Zero means the default. Going over one ends the load or the
// call with [schema.Limit]; what was stored before stays, and the extension can be called again.
type Limits struct {
	// ModuleBytes is the largest module, in bytes. Default 32 MiB.
	ModuleBytes int

	// CompileTime bounds Load. Compilation is the price of a module, not of a call: a Go extension of 2.6
	// MB takes a second or two. The compiler can't be interrupted: Load returns in time, and what the compiler
	// still does is thrown away when it is done. Default 60 seconds.
	CompileTime time.Duration

	// MemoryPages is the most memory that an instance can have, in pages of 64 KiB, 65535 at most. A module
	// that starts with more is refused; growing beyond it fails inside the guest. A Go guest needs 47 before
	// it does anything. Default 1024, which is 64 MiB.
	MemoryPages uint32

	// CallTime bounds a call from the making of its instance to its return. Default 5 seconds.
	CallTime time.Duration

	// InputBytes is the largest input of a call. Default 4 MiB.
	InputBytes int

	// OutputBytes is the largest output of a call. Default 4 MiB.
	OutputBytes int

	// ValueBytes is the largest value that the extension can store. Reading is not bounded by it: what other
	// writers of the same row have stored can be read. Default 1 MiB.
	ValueBytes int

	// PrintBytes is how much of what the extension prints is kept, for each of its two streams; the rest is
	// counted and thrown away, which is no error. Default 16 KiB.
	PrintBytes int
}

// The defaults of Limits.
const (
	defaultModuleBytes = 32 << 20
	defaultCompileTime = 60 * time.Second
	defaultMemoryPages = 1024
	defaultCallTime    = 5 * time.Second
	defaultInputBytes  = 4 << 20
	defaultOutputBytes = 4 << 20
	defaultValueBytes  = 1 << 20
	defaultPrintBytes  = 16 << 10
)

// maxMemoryPages is one less than what WebAssembly allows: with all 65536, the end of the memory is no
// 32-bit number any more, and the runtime's own slicing of a window that ends there overflows.
const maxMemoryPages = 65535

// withDefaults returns the limits with every zero replaced, or an Invalid error.
func (l Limits) withDefaults() (Limits, error) {
	for _, n := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"ModuleBytes", &l.ModuleBytes, defaultModuleBytes},
		{"InputBytes", &l.InputBytes, defaultInputBytes},
		{"OutputBytes", &l.OutputBytes, defaultOutputBytes},
		{"ValueBytes", &l.ValueBytes, defaultValueBytes},
		{"PrintBytes", &l.PrintBytes, defaultPrintBytes},
	} {
		if err := setLimit(n.name, n.value, n.zero); err != nil {
			return l, err
		}
	}
	if err := setLimit("CompileTime", &l.CompileTime, defaultCompileTime); err != nil {
		return l, err
	}
	if err := setLimit("CallTime", &l.CallTime, defaultCallTime); err != nil {
		return l, err
	}
	if l.MemoryPages == 0 {
		l.MemoryPages = defaultMemoryPages
	}
	if l.MemoryPages > maxMemoryPages {
		return l, schema.Errorf(schema.Invalid, "limit MemoryPages is %d: it can be at most %d", l.MemoryPages, maxMemoryPages)
	}
	return l, nil
}

// setLimit replaces zero by the default and refuses what is below.
func setLimit[T int | time.Duration](name string, value *T, zero T) error {
	switch {
	case *value == 0:
		*value = zero
	case *value < 0:
		return schema.Errorf(schema.Invalid, "limit %s is %v: it can't be negative; 0 means the default", name, *value)
	}
	return nil
}
