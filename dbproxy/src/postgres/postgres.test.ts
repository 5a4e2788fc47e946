import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { refusalTexts } from "../refusals.ts";
import { aMessage, aStartup } from "../testing/messages.ts";
import { errorResponse } from "./errors.ts";
import { createReplyReader } from "./replies.ts";
import { packetBytes, readFirstPacket } from "./startup.ts";

const malformed = { kind: "refused", why: "malformed" };
const unsupported = { kind: "refused", why: "unsupported" };
const words = (...values: number[]): Buffer => {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [at, value] of values.entries()) bytes.writeUInt32BE(value, 4 * at);
  return bytes;
};

describe("the first packet", () => {
  const login = ["user", "r_1", "database", "d_1"];
  test.each([
    { what: "a login", packet: aStartup(login), is: { kind: "startup", user: "r_1", database: "d_1" } },
    {
      what: "one of a later minor version",
      packet: aStartup(login, 196_610),
      is: { kind: "startup", user: "r_1", database: "d_1" },
    },
    {
      what: "more parameters",
      packet: aStartup([...login, "options", "-c x=1"]),
      is: { kind: "startup", user: "r_1", database: "d_1" },
    },
    { what: "no database", packet: aStartup(["user", "r_1"]), is: { kind: "startup", user: "r_1", database: null } },
    {
      what: "an empty database",
      packet: aStartup(["user", "r_1", "database", ""]),
      is: { kind: "startup", user: "r_1", database: null },
    },
    { what: "no user", packet: aStartup(["database", "d_1"]), is: malformed },
    { what: "an empty user", packet: aStartup(["user", ""]), is: malformed },
    { what: "two users", packet: aStartup([...login, "user", "svc_admin"]), is: malformed },
    { what: "something after the end", packet: aStartup([...login, "", "user"]), is: malformed },
    { what: "no end", packet: aStartup(login, 196_608, ""), is: malformed },
    { what: "a name without a value", packet: aStartup([...login, "options"]), is: malformed },
    { what: "protocol 2", packet: aStartup(login, 131_072), is: unsupported },
    { what: "protocol 4", packet: aStartup(login, 262_144), is: unsupported },
    { what: "replication", packet: aStartup([...login, "replication", "true"]), is: unsupported },
    { what: "TLS", packet: words(8, 80877103), is: { kind: "encryption" } },
    { what: "GSSAPI", packet: words(8, 80877104), is: { kind: "encryption" } },
    { what: "TLS with something behind it", packet: words(12, 80877103, 0), is: malformed },
    {
      what: "a cancel",
      packet: words(16, 80877102, 7, 0xcafe),
      is: { kind: "cancel", key: { pid: 7, secret: "0000cafe" } },
    },
    {
      what: "a cancel with a longer secret",
      packet: words(20, 80877102, 7, 1, 2),
      is: { kind: "cancel", key: { pid: 7, secret: "0000000100000002" } },
    },
    { what: "a cancel without a secret", packet: words(12, 80877102, 7), is: malformed },
  ])("$what", ({ packet, is }) => {
    expect(packetBytes(packet)).toBe(packet.length);
    expect(readFirstPacket(packet)).toEqual(is);
  });

  test.each([0, 7, 10_241, 0x16_03_01_00, 0xffff_ffff])("is none with a length of %i", (length) => {
    expect(packetBytes(words(length))).toBeNull();
  });

  test("whatever comes is read or refused, and nothing of a login is invented", () => {
    const bytes = fc.oneof(
      fc.uint8Array({ minLength: 8, maxLength: 200 }),
      fc.array(fc.string({ unit: "binary-ascii", maxLength: 8 }), { maxLength: 9 }).map((texts) => aStartup(texts)),
    );
    fc.assert(
      fc.property(bytes, (some) => {
        const packet = Buffer.from(some);
        const read = readFirstPacket(packet);
        if (read.kind === "startup") expect(packet.toString("latin1")).toContain(`user\0${read.user}\0`);
      }),
      { numRuns: 20_000 },
    );
  });
});

describe("a server's replies", () => {
  const authentication = aMessage("R", words(0));
  const parameter = aMessage("S", Buffer.from("server_version\x0017.0\0"));
  const key = aMessage("K", words(4711, 0xcafe));
  const ready = aMessage("Z", Buffer.from("I"));
  const refused = aMessage("E", Buffer.from("SFATAL\0VFATAL\0C28P01\0Mno\0\0"));

  test.each([
    {
      what: "a login",
      bytes: [authentication, parameter, key, ready],
      replies: [{ kind: "key", key: { pid: 4711, secret: "0000cafe" } }, { kind: "ready" }],
    },
    { what: "a refusal", bytes: [aMessage("R", words(10)), refused], replies: [{ kind: "refused", state: "28P01" }] },
    { what: "what comes after the login", bytes: [ready, key, refused], replies: [{ kind: "ready" }] },
    {
      what: "a long message before it",
      bytes: [aMessage("N", Buffer.alloc(100_000)), ready],
      replies: [{ kind: "ready" }],
    },
  ])("$what is read however its bytes arrive", ({ bytes, replies }) => {
    const all = Buffer.concat(bytes);
    fc.assert(
      fc.property(fc.array(fc.nat(all.length), { maxLength: 12 }), (cuts) => {
        const reader = createReplyReader();
        const ends = [...cuts.sort((a, b) => a - b), all.length];
        const found = ends.flatMap((end, at) => reader.push(all.subarray(ends[at - 1] ?? 0, end)));
        expect(found).toEqual(replies);
      }),
      { numRuns: 200 },
    );
  });

  test("whatever a server says is read", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 10 }), (chunks) => {
        const reader = createReplyReader();
        for (const chunk of chunks) reader.push(Buffer.from(chunk));
      }),
      { numRuns: 5_000 },
    );
  });
});

test.each(Object.entries(refusalTexts))("a refusal (%s) is told in an ErrorResponse", (why, { message, postgres }) => {
  const response = errorResponse(why as keyof typeof refusalTexts);
  expect(response.readUInt32BE(1)).toBe(response.length - 1);
  expect(response.toString("utf8", 5)).toBe(`SFATAL\0VFATAL\0C${postgres}\0M${message}\0\0`);
});
