/** trapping returns what goes around the imports of a module, and trap, which runs f while each of them is fatal. */
export function trapping() {
  let armed = false;
  const fatal = (f) => (...args) => {
    if (armed) throw new Error("on purpose");
    return f(...args);
  };
  const around = (imports) =>
    Object.fromEntries(
      Object.entries(imports).map(([module, functions]) => [
        module,
        Object.fromEntries(Object.entries(functions).map(([name, f]) => [name, fatal(f)])),
      ]),
    );
  const trap = (f) => {
    armed = true;
    try {
      return f();
    } finally {
      armed = false;
    }
  };
  return { trap, around };
}
