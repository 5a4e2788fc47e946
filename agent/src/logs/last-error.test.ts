import { utf8Length } from "@svc/proto";
import { expect, test } from "vitest";
import { fromLastError } from "./last-error.ts";

const roomBytes = 3_500;
const tell = (log: string, maxBytes = roomBytes) => fromLastError(log.split("\n"), maxBytes);
const many = (count: number, line: (at: number) => string) => Array.from({ length: count }, (_, at) => line(at));

const addressInUse = `node:events:502
      throw er; // Unhandled 'error' event
      ^

Error: listen EADDRINUSE: address already in use :::3000
    at Server.setupListenHandle [as _listen2] (node:net:1908:16)
    at listenInCluster (node:net:1965:12)
    at Server.listen (node:net:2067:7)
    at Server.<anonymous> (file:///app/server.mjs:2:57)
    at Object.onceWrapper (node:events:638:28)
    at Server.emit (node:events:536:35)
    at emitListeningNT (node:net:1951:10)
    at process.processTicksAndRejections (node:internal/process/task_queues:81:21)
Emitted 'error' event on Server instance at:
    at emitErrorNT (node:net:1944:8)
    at process.processTicksAndRejections (node:internal/process/task_queues:82:21) {
  code: 'EADDRINUSE',
  errno: -98,
  syscall: 'listen',
  address: '::',
  port: 3000
}

Node.js v24.1.0`;

const rejection = `file:///app/server.mjs:1
console.log("up"); Promise.reject(new Error("db is gone", {cause: new TypeError("inner")}))
                                  ^

Error: db is gone
    at file:///app/server.mjs:1:35
    at ModuleJob.run (node:internal/modules/esm/module_job:325:25) {
  [cause]: TypeError: inner
      at file:///app/server.mjs:1:67
      at ModuleJob.run (node:internal/modules/esm/module_job:325:25)
}

Node.js v24.1.0`;

const plainRejection = `node:internal/process/promises:389
      new UnhandledPromiseRejection(reason);
      ^

UnhandledPromiseRejection: This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not handled with .catch(). The promise rejected with the reason "plain".
    at throwUnhandledRejectionsMode (node:internal/process/promises:389:7) {
  code: 'ERR_UNHANDLED_REJECTION'
}`;

const syntax = `/app/server.js:2
const x = ;
          ^

SyntaxError: Unexpected token ';'
    at wrapSafe (node:internal/modules/cjs/loader:1464:18)`;

const missingModule = `node:internal/modules/cjs/loader:1210
  throw err;
  ^

Error: Cannot find module 'nope'
Require stack:
- /app/server.cjs
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15) {
  code: 'MODULE_NOT_FOUND'
}`;

const thrownText = `node:internal/modules/run_main:123
    triggerUncaughtException(
    ^
the settings are missing`;

const traceback = `Traceback (most recent call last):
  File "/app/main.py", line 4, in <module>
    f(20)
    ^^^^^
  File "/app/main.py", line 3, in f
    raise ValueError("bad settings")
ValueError: bad settings`;

const chained = `${traceback}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/main.py", line 5, in <module>
    raise RuntimeError("cannot start") from e
RuntimeError: cannot start`;

test.each([
  ["Node's stack with what is around it", addressInUse],
  ["an unhandled rejection with its cause", rejection],
  ["a rejection with a text", plainRejection],
  ["a mistake in the source, which only the source shows", syntax],
  ["a module that is missing", missingModule],
  ["a text that was thrown", thrownText],
  ["Python's traceback", traceback],
  ["one exception after the other", chained],
  [
    "a panic of Go",
    "panic: assignment to entry in nil map\n\ngoroutine 1 [running]:\nmain.main()\n\t/app/main.go:5 +0x1d",
  ],
  ["a panic of Rust", "thread 'main' panicked at src/main.rs:2:5:\nno settings\nnote: run with `RUST_BACKTRACE=1`"],
  [
    "an error of Java",
    'Exception in thread "main" java.lang.IllegalStateException: no settings\n\tat Main.main(Main.java:5)',
  ],
  ["a level in a line", "2030-01-01 10:00:00 ERROR  the database is away\nshutting down"],
  ["a level in JSON", '{"level":60,"time":1,"msg":"the database is away"}\n{"level":30,"time":2,"msg":"bye"}'],
  [
    "an error behind words of the app",
    "cannot start: TypeError: x is not a function\n    at start (/app/server.js:3:1)",
  ],
])("%s is shown whole, without what went before", (_, error) => {
  const before = many(60, (at) => `request ${at} answered`).join("\n");
  expect(tell(`${before}\n${error}\n`).join("\n")).toBe(error);
});

test("of several errors it is the last, and those right above it", () => {
  const quiet = many(30, (at) => `step ${at}`).join("\n");
  expect(tell(`Error: an old one\n${quiet}\nError: first\nError: second\n  more of it\nbye`)).toEqual([
    "Error: first",
    "Error: second",
    "  more of it",
    "bye",
  ]);
});

test("where nothing looks like an error it is the end, fifteen lines of it", () => {
  const lines = many(100, (at) => `line ${at}`);
  expect(tell(`${lines.join("\n\n")}\n`)).toEqual(lines.slice(-15));
  expect(tell("")).toEqual([]);
  expect(tell("0 errors, all is well")).toEqual(["0 errors, all is well"]);
});

test.each([
  ["a long stack", ["Error: boom", ...many(200, (at) => `    at f${at} (/app/server.js:${at}:1)`)]],
  ["much that came afterwards", ["Error: boom", ...many(200, (at) => `request ${at} answered`)]],
  ["lines that are very long", ["Error: boom", ...many(10, (at) => `${at}${"x".repeat(5_000)}`)]],
  [
    "a very long source line",
    ["/app/s.js:1", "x".repeat(4_000), "   ^", "", "Error: boom", "    at f (/app/s.js:1:4)"],
  ],
  ["many bytes per character", ["Error: boom", ...many(50, (at) => `    at ${"写".repeat(100)} (${at})`)]],
  ["many errors, each of them long", [...many(20, (at) => `Error: ${at} ${"x".repeat(900)}`), "Error: boom"]],
])("before %s the error's own line stays, and the end does", (_, lines) => {
  const told = tell(lines.join("\n"));
  expect(told).toContain("Error: boom");
  expect(told.at(-1)?.slice(0, 5)).toBe(lines.at(-1)?.slice(0, 5));
  expect(told.length).toBeLessThanOrEqual(40);
  expect(utf8Length(told.join("\n"))).toBeLessThanOrEqual(roomBytes);
});

test("what is left out is counted", () => {
  const told = tell(["Error: boom", ...many(100, (at) => `    at f${at} (/app/server.js)`)].join("\n"));
  expect(told).toHaveLength(40);
  expect(told.filter((line) => line.includes("left out"))).toEqual(["[62 lines left out]"]);
});

test("an error's line that is too long keeps its beginning, and no half character", () => {
  const [line = ""] = tell(`Error: ${"é写".repeat(3_000)}\n    at f (/app/server.js:1:1)`, 1_024);
  expect(line).toMatch(/^Error: (?:é写)+é?…$/u);
  expect(utf8Length(line)).toBeLessThanOrEqual(256);
});

test("an app that is started by a package manager is told without that one's words", () => {
  const log = "> app@1.0.0 start\n> node server.js\n\nError: boom\n    at f (/app/server.js:1:1)\n\nNode.js v24.1.0";
  expect(tell(`${log}\nnpm error A complete log of this run can be found in: /root/.npm/_logs/x-debug-0.log`)).toEqual([
    "Error: boom",
    "    at f (/app/server.js:1:1)",
    "",
    "Node.js v24.1.0",
  ]);
  expect(tell(`${log}\n\u2009ELIFECYCLE\u2009 Command failed with exit code 1.`).at(0)).toBe("Error: boom");
});
