package cli

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"
)

// exactText maps an argument to a string, byte for byte. kong's own mapper takes it through JSON, which puts
// other characters in the place of what is not UTF-8: another file would be opened (S10), another value
// stored (Y8).
//
// It refuses a flag whose value is empty. That is how an unset variable of a script looks, and must not mean
// what leaving the flag out means: the user's own database, or the last entry (Y1).
func exactText(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	text, ok := token.Value.(string)
	if !ok {
		return fmt.Errorf("text was expected, not %v", token.Value)
	}
	if text == "" && ctx.Value.Flag != nil && !emptyDefault(ctx.Value) {
		return errors.New("the value is empty: leave the flag out, or give it one")
	}
	target.SetString(text)
	return nil
}

// emptyDefault reports whether a flag says itself that empty stands for leaving it out.
func emptyDefault(v *kong.Value) bool { return v.HasDefault && v.Default == "" }
