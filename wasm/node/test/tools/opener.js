// node opener.js MODULE PATH opens a store and prints what comes of it.
import { openStore } from "../../index.js";

const [wasm, path] = process.argv.slice(2);
try {
  openStore({ wasm, database: "sessions", path }).close();
  console.log("it was let in");
} catch (e) {
  console.log(e.message);
}
