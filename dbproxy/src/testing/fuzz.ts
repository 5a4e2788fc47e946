// Many handshakes of both engines, most of them damaged: `node dbproxy/src/testing/fuzz.ts [number]`. It ends with an error
// at the first that a reader throws at, or of which it makes more than was there.
import { performance } from "node:perf_hooks";
import { databaseProxyDial } from "@svc/proto/database-proxy";
import fc from "fast-check";
import { agreed, greeted } from "../mariadb/capabilities.ts";
import { readGreeting, writeGreeting } from "../mariadb/greeting.ts";
import { readResponse, writeResponse } from "../mariadb/response.ts";
import { frameBytes, headBytes, readFrame, writeFrame } from "../peers/frame.ts";
import { createReplyReader } from "../postgres/replies.ts";
import { packetBytes, readFirstPacket } from "../postgres/startup.ts";
import { aMessage, aStartup } from "./messages.ts";

const number = Number(process.argv[2] ?? 1_000_000);
const whole = {
  startup: aStartup(["user", "r_0123456789abcdef", "database", "d_0123456789abcdef", "application_name", "app"]),
  replies: Buffer.concat([
    aMessage("R", Buffer.alloc(4)),
    aMessage("K", Buffer.alloc(8, 7)),
    aMessage("Z", Buffer.from("I")),
  ]),
  response: writeResponse({
    ...{ capabilities: greeted, packetMaxBytes: 1 << 24, charset: 45, user: "r_0123456789abcdef" },
    ...{ auth: Buffer.alloc(20, 7), database: "d_0123456789abcdef", plugin: "caching_sha2_password" },
    attributes: Buffer.from("\x06\x02os\x02li", "latin1"),
  }),
  greeting: writeGreeting(Buffer.alloc(20, 65)),
  dial: writeFrame({
    ...{ databaseId: "7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b", epoch: "7", purpose: "copy" },
    copyId: "9f3a4b5c-6d7e-4f80-8b1c-2d3e4f5a6b7c",
  }),
};

const damaged = (bytes: Buffer) =>
  fc
    .tuple(
      fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.nat(255)), { maxLength: 4 }),
      fc.nat(bytes.length),
      fc.boolean(),
    )
    .map(([changes, end, isCut]) => {
      const copy = Buffer.from(isCut ? bytes.subarray(0, end) : bytes);
      for (const [at, value] of changes) if (at < copy.length) copy[at] = value;
      return copy;
    });

const readers = {
  startup(bytes: Buffer): boolean {
    if (bytes.length < 8 || packetBytes(bytes) !== bytes.length) return false;
    const read = readFirstPacket(bytes);
    if (read.kind === "startup" && !bytes.toString("latin1").includes(`user\0${read.user}\0`))
      throw new Error("invented");
    return read.kind !== "refused";
  },
  replies: (bytes: Buffer): boolean => createReplyReader().push(bytes).length > 0,
  response(bytes: Buffer): boolean {
    const read = readResponse(bytes);
    const capabilities = read === null ? null : agreed(read.capabilities);
    if (read === null || capabilities === null || read.auth.length > 0xfa) return false;
    if (readResponse(writeResponse({ ...read, capabilities }))?.user !== read.user)
      throw new Error("written otherwise");
    return true;
  },
  greeting: (bytes: Buffer): boolean => readGreeting(bytes) !== null,
  dial(bytes: Buffer): boolean {
    if (bytes.length < headBytes || frameBytes(bytes) !== bytes.length - headBytes) return false;
    const read = readFrame(bytes.subarray(headBytes), databaseProxyDial);
    if (read !== null && "copyId" in read !== (read.purpose === "copy")) throw new Error("a copy that is none");
    return read !== null;
  },
};

const kinds = ["startup", "replies", "response", "greeting", "dial"] as const;
for (const kind of kinds) {
  const runs = Math.ceil(number / kinds.length);
  let accepted = 0;
  const from = performance.now();
  fc.assert(
    fc.property(damaged(whole[kind]), (bytes) => {
      if (readers[kind](bytes)) accepted += 1;
    }),
    { numRuns: runs },
  );
  const seconds = (performance.now() - from) / 1_000;
  console.log(
    `${kind}: ${runs} in ${seconds.toFixed(1)} s (${Math.round(runs / seconds)}/s), ${accepted} read, none broke it`,
  );
}
