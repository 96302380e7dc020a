package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"pistate/schema"
	"pistate/wasm/abi"
)

// module is the compiled code of one extension, in a runtime of its own that has its memory limit and the
// two import modules.
type module struct {
	runtime    wazero.Runtime
	compiled   wazero.CompiledModule
	compiler   *compiler
	initialize bool // it is a reactor that wants to be initialised
}

// close gives the code back; no call may be running.
func (m *module) close() error {
	ctx := context.Background()
	var errs []error
	if m.compiled != nil {
		errs = append(errs, m.compiled.Close(ctx))
	}
	errs = append(errs, m.runtime.Close(ctx), m.compiler.release())
	return errors.Join(errs...)
}

// check refuses what is a WebAssembly module but not an extension (G1): one that lacks what the host calls,
// or wants what the host doesn't give.
func (m *module) check(ctx context.Context) error {
	if err := m.checkExports(); err != nil {
		return err
	}
	if err := checkImports(m.runtime, m.compiled, abi.Module, wasi_snapshot_preview1.ModuleName); err != nil {
		return err
	}
	return m.checkLink(ctx)
}

func (m *module) checkExports() error {
	functions := m.compiled.ExportedFunctions()
	call := functions[abi.Call]
	if call == nil {
		if functions[abi.Start] != nil {
			return schema.Errorf(schema.Invalid, "the module is a command (it has %s) and exports no %s: "+
				"an extension is a reactor; in Go, build with -buildmode=c-shared", abi.Start, abi.Call)
		}
		return schema.Errorf(schema.Invalid, "the module exports no function %s", abi.Call)
	}
	if want := "() -> (i32)"; signature(call) != want {
		return schema.Errorf(schema.Invalid, "the module's %s is %s: want %s", abi.Call, signature(call), want)
	}
	if init := functions[abi.Initialize]; init != nil {
		if want := "() -> ()"; signature(init) != want {
			return schema.Errorf(schema.Invalid, "the module's %s is %s: want %s", abi.Initialize, signature(init), want)
		}
		m.initialize = true
	}
	if m.compiled.ExportedMemories()[abi.Memory] == nil {
		return schema.Errorf(schema.Invalid, "the module exports no memory by the name %q", abi.Memory)
	}
	return nil
}

// checkImports names the functions that a module wants and the modules that are there for it don't have.
func checkImports(rt wazero.Runtime, compiled wazero.CompiledModule, modules ...string) error {
	offered := map[string]api.FunctionDefinition{}
	for _, name := range modules {
		for function, def := range rt.Module(name).ExportedFunctionDefinitions() {
			offered[name+"."+function] = def
		}
	}
	var wrong []string
	for _, def := range compiled.ImportedFunctions() {
		module, function, _ := def.Import()
		name := module + "." + function
		switch offer := offered[name]; {
		case offer == nil:
			wrong = append(wrong, "unknown function "+printable(name))
		case signature(offer) != signature(def):
			wrong = append(wrong, fmt.Sprintf("%s as %s, which is %s", name, signature(def), signature(offer)))
		}
	}
	for _, def := range compiled.ImportedMemories() {
		module, name, _ := def.Import()
		wrong = append(wrong, "memory "+printable(module+"."+name))
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	wrong = slices.Compact(wrong)
	const enough = 10
	if more := len(wrong) - enough; more > 0 {
		wrong = append(wrong[:enough], fmt.Sprintf("%d more", more))
	}
	last := len(modules) - 1
	return schema.Errorf(schema.Invalid, "the module imports %s; there is only what %s and %s have",
		strings.Join(wrong, ", "), strings.Join(modules[:last], ", "), modules[last])
}

// checkLink makes an instance to see that one can be made: this finds the imports and initialisers that
// wazero doesn't tell of before. None of the guest's code runs, as the context is over already.
func (m *module) checkLink(ctx context.Context) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	instance, err := m.runtime.InstantiateModule(over, m.compiled, bareConfig())
	if exit := (*sys.ExitError)(nil); errors.As(err, &exit) {
		return nil // it has a start function, which the context stopped
	}
	if err != nil {
		return invalid("the module can't be instantiated", err)
	}
	return instance.Close(ctx)
}

// invalid is the error of a module that wazero refuses, in words which may have names from the module in them.
func invalid(what string, cause error) error {
	return &schema.Error{Code: schema.Invalid, Detail: what + ": " + printable(cause.Error()), Err: cause}
}

// signature writes a function's type as in "(i32, i64) -> (i32)".
func signature(def api.FunctionDefinition) string {
	return typeList(def.ParamTypes()) + " -> " + typeList(def.ResultTypes())
}

// typeOf gives the types of one of the ABI's functions.
func typeOf(f abi.Func) (params, results []api.ValueType) {
	for _, p := range f.Params {
		params = append(params, api.ValueType(p.Type))
	}
	if f.Result != 0 {
		results = []api.ValueType{api.ValueType(f.Result)}
	}
	return params, results
}

func typeList(types []api.ValueType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = api.ValueTypeName(t)
	}
	return "(" + strings.Join(names, ", ") + ")"
}
