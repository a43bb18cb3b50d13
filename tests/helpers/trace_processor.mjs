// Answers SQL about a trace with Perfetto's trace processor, compiled to WebAssembly.
//
//   node trace_processor.mjs DIRECTORY TRACE < queries.json > rows.json
//
// DIRECTORY holds engine.mjs, engine_bundle.node.js and trace_processor.wasm. The bundle is made to
// run in a browser's worker, so what such a worker offers is provided here.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [directory, trace] = process.argv.slice(2);
const queries = JSON.parse(fs.readFileSync(0, 'utf8'));
const CHUNK_BYTES = 16 * 1024 * 1024;

function local(address) {
  return fs.readFileSync(path.join(directory, path.basename(String(address))));
}

console.log = console.warn = () => {};
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
globalThis.importScripts = () => {};
globalThis.location = { href: `file://${path.resolve(directory)}/engine_bundle.js` };
globalThis.fetch = async (address) =>
  new Response(local(address.url ?? address), { headers: { 'content-type': 'application/wasm' } });
globalThis.XMLHttpRequest = class {
  open(_method, address) {
    this.address = address;
  }
  send() {
    const content = local(this.address);
    this.status = 200;
    this.response = content.buffer.slice(
      content.byteOffset, content.byteOffset + content.length);
  }
};

const { EngineBase } = await import(path.resolve(directory, 'engine.mjs'));
vm.runInThisContext(fs.readFileSync(path.join(directory, 'engine_bundle.node.js'), 'utf8'));
await new Promise((resolve) => setTimeout(resolve, 1000));

class Engine extends EngineBase {
  id = 'test';
  mode = 'WASM';
  rpcSendRequestBytes(data) {
    port.onmessage({ data });
  }
}
const engine = new Engine();
const port = { postMessage: (data) => queueMicrotask(() => engine.onRpcResponseBytes(data)) };
globalThis.onmessage({ data: port });

const content = fs.readFileSync(trace);
for (let at = 0; at < content.length; at += CHUNK_BYTES) {
  await engine.parse(new Uint8Array(content.subarray(at, at + CHUNK_BYTES)));
}
await engine.notifyEof();
const answers = [];
for (const query of queries) {
  const result = await engine.query(query);
  const columns = result.columns();
  const rows = [];
  const anything = Object.fromEntries(columns.map((column) => [column, null]));
  for (const row = result.iter(anything); row.valid(); row.next()) {
    const values = columns.map((column) => row.get(column));
    rows.push(values.map((value) => (typeof value === 'bigint' ? Number(value) : value)));
  }
  answers.push(rows);
}
fs.writeFileSync(1, JSON.stringify(answers));
process.exit(0);
