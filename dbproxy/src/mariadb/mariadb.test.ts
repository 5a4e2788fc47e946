import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { agreed, capability, greeted, isKept } from "./capabilities.ts";
import { readGreeting, saltBytes, writeGreeting } from "./greeting.ts";
import { errorNumber, errorPacket, packet, readHead, switchedPlugin, switchRequest } from "./packet.ts";
import { type Response, readResponse, writeResponse } from "./response.ts";

const salt = Buffer.from("abcdefghijklmnopqrst");
const ofMysql = 0xffff_ffffn;
/** What a client of MariaDB sets of what it was greeted with. */
const usual = greeted & ~capability.connectWithDb;

const aResponse = (rest: Partial<Response> = {}): Response => ({
  ...{ capabilities: usual | capability.connectWithDb, packetMaxBytes: 1 << 24, charset: 45 },
  ...{ user: "r_1", auth: Buffer.alloc(20, 7), database: "d_1", plugin: "mysql_native_password" },
  attributes: Buffer.from("\x06\x02os\x02li", "latin1"),
  ...rest,
});

describe("a client's answer", () => {
  test.each([
    { what: "all there is", response: aResponse() },
    { what: "no database", response: aResponse({ capabilities: usual, database: null }) },
    { what: "no password", response: aResponse({ auth: Buffer.alloc(0) }) },
    {
      what: "no attributes",
      response: aResponse({ capabilities: usual & ~capability.connectAttributes, database: null, attributes: null }),
    },
    {
      what: "a client of MySQL",
      response: aResponse({
        capabilities: ((usual & ofMysql) | capability.connectWithDb | capability.mysql) & ~capability.lengthEncodedAuth,
      }),
    },
  ])("with $what is read as it was written", ({ response }) => {
    expect(readResponse(writeResponse(response))).toEqual(response);
  });

  const whole = writeResponse(aResponse());
  test.each([
    { what: "is cut off", payload: whole.subarray(0, -1) },
    { what: "goes on", payload: Buffer.concat([whole, Buffer.of(0)]) },
    { what: "is nothing but its head", payload: whole.subarray(0, 32) },
    { what: "is empty", payload: Buffer.alloc(0) },
    { what: "is too long", payload: Buffer.alloc(10_241, 1) },
    { what: "names no user", payload: writeResponse(aResponse({ user: "" })) },
    {
      what: "is of a time before salts",
      payload: writeResponse(
        aResponse({ capabilities: usual & ~capability.secureConnection & ~capability.lengthEncodedAuth }),
      ),
    },
  ])("that $what is none", ({ payload }) => {
    expect(readResponse(payload)).toBeNull();
  });

  test("whatever comes is read or refused, and what is read is written as it was", () => {
    const garbled = fc
      .tuple(
        fc.constantFrom(whole, writeResponse(aResponse({ capabilities: usual, database: null }))),
        fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 4 }),
      )
      .map(([bytes, changes]) => {
        const changed = Buffer.from(bytes);
        for (const [at, value] of changes) changed[at % changed.length] = value;
        return changed;
      });
    const some = fc.oneof(
      garbled,
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    );
    fc.assert(
      fc.property(some, (payload) => {
        const read = readResponse(payload);
        const capabilities = read === null ? null : agreed(read.capabilities);
        if (read === null || capabilities === null || read.auth.length > 0xfa) return;
        const again = readResponse(writeResponse({ ...read, capabilities }));
        expect([again?.user, again?.database]).toEqual([read.user, read.database]);
      }),
      { numRuns: 20_000 },
    );
  });
});

describe("what is agreed on", () => {
  const needed = capability.protocol41 | capability.secureConnection | capability.pluginAuth;
  test.each([
    { what: "all that was offered", client: greeted, is: greeted },
    { what: "the mark of a client of MySQL", client: needed | capability.mysql, is: needed | capability.mysql },
    { what: "what was not offered is left away", client: needed | capability.localFiles | (1n << 27n), is: needed },
    { what: "no TLS", client: needed | capability.ssl, is: null },
    { what: "no compression", client: needed | capability.compress, is: null },
    { what: "no client that cannot be asked anew", client: needed & ~capability.pluginAuth, is: null },
  ])("$what", ({ client, is }) => {
    expect(agreed(client)).toBe(is);
  });

  test("a server keeps it when it has all of it, whatever it has besides", () => {
    expect(isKept(greeted | capability.mysql, greeted | capability.ssl)).toBe(true);
    expect(isKept(greeted, greeted & ~(1n << 24n))).toBe(false);
    expect(isKept(greeted & ~(1n << 24n), greeted & ~(1n << 24n))).toBe(true);
  });
});

test("a greeting is read as it was written, and something else is none", () => {
  expect(readGreeting(writeGreeting(salt))).toEqual({ capabilities: greeted, salt });
  const error = errorPacket(0, "limit").subarray(4);
  expect([readGreeting(error), errorNumber(error)]).toEqual([null, 1040]);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), (bytes) => {
      const read = readGreeting(Buffer.from([10, ...bytes]));
      if (read !== null) expect(read.salt.length).toBe(saltBytes);
    }),
    { numRuns: 5_000 },
  );
});

test("packets say how long they are, and which of their exchange", () => {
  expect(readHead(packet(3, Buffer.alloc(70_000)))).toEqual({ bytes: 70_000, sequence: 3 });
  expect(switchedPlugin(switchRequest("client_ed25519", salt))).toBe("client_ed25519");
  expect([switchedPlugin(Buffer.of(0)), switchedPlugin(Buffer.of(0xfe))]).toEqual([null, null]);
});
