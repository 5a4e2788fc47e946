import { describe, expect, test } from "vitest";
import { addCount, addVisit, type Counts } from "./counts.ts";
import { handshakeMark, hostOf, isHandshake, parseLine } from "./line.ts";

test.each([
  {
    when: "Caddy 2.6 wrote it, with the announced length in the place of a user",
    line: '{"ts":7200.5,"request":{"host":"a.test"},"user_id":"6","duration":0.1,"size":5,"status":200}',
    visit: { host: "a.test", hour: 2, status: 200, bytesIn: 6, bytesOut: 5, seconds: 0.1 },
  },
  {
    when: "Caddy 2.7 or later wrote it",
    line: '{"ts":7199.9,"request":{"host":"a.test:8080"},"bytes_read":7,"user_id":"6","size":0,"status":101}',
    visit: { host: "a.test:8080", hour: 1, status: 101, bytesIn: 7, bytesOut: 0, seconds: 0 },
  },
  {
    when: "nothing was sent and nothing answered",
    line: '{"ts":0,"request":{"host":"a.test"},"user_id":"","size":0,"status":0}',
    visit: { host: "a.test", hour: 0, status: 0, bytesIn: 0, bytesOut: 0, seconds: 0 },
  },
  {
    when: "a visitor announced a lot, took long, and was answered by a site that did not read it",
    line: '{"ts":0,"request":{"host":"a.test"},"user_id":"9999999999999","duration":3600,"size":-4,"status":200}',
    visit: { host: "a.test", hour: 0, status: 200, bytesIn: 64 * 1024, bytesOut: 0, seconds: 3600 },
  },
  { when: "it was cut short", line: '{"ts":0,"request":{"ho', visit: null },
  { when: "it has no host", line: '{"ts":0,"request":{}}', visit: null },
  { when: "it is something else", line: "[]", visit: null },
])("a line when $when", ({ line, visit }) => {
  if (visit === null) expect(parseLine(line)).toBeNull();
  else expect(parseLine(line)).toMatchObject(visit);
});

test.each([
  { said: handshakeMark, is: true },
  { said: `${handshakeMark}x`, is: false },
  { said: "", is: false },
  // A path, as a visitor may ask for it.
  { said: `\x7f\x7f\x7f\x7f/"user_id":"${handshakeMark}"\x7f`, is: false },
])("a line that says $said is of a handshake: $is", ({ said, is }) => {
  expect(isHandshake(JSON.stringify({ ts: 0, request: { host: "127.0.0.1:7481" }, user_id: said }))).toBe(is);
});

describe("who asked and how", () => {
  const nothing = { address: "", userAgent: "", path: "", referrer: "", destination: "", optsOut: false };
  const parts = ["12", "document", "", "1", "/a%20b", "Agent/1 (x; y)", "https://ref.test"];
  const line = (request: object, said?: string) =>
    JSON.stringify({ ts: 0, request: { host: "a.test", ...request }, user_id: said, status: 200 });

  test.each([
    {
      when: "a browser asked",
      line: line({ remote_ip: "192.0.2.7", method: "GET" }, parts.join("\x7f")),
      said: {
        ...{ address: "192.0.2.7", userAgent: "Agent/1 (x; y)", path: "/a%20b", referrer: "https://ref.test" },
        ...{ destination: "document", optsOut: true },
      },
    },
    {
      when: "something stands before the edge",
      line: line({ remote_ip: "192.0.2.7", client_ip: "198.51.100.9" }, ""),
      said: { ...nothing, address: "198.51.100.9" },
    },
    { when: "the log does not say", line: line({}, "12"), said: nothing },
    {
      when: "the line has other things there",
      line: '{"ts":0,"request":{"host":"a","method":7},"user_id":{}}',
      said: nothing,
    },
  ])("is known when $when", ({ line, said }) => expect(parseLine(line)?.said).toEqual(said));

  test("what was announced is read beside it", () => {
    expect(parseLine(line({}, parts.join("\x7f")))?.bytesIn).toBe(12);
  });
});

test.each([0, 499, 502, 503, 504])(
  "of a request that ended with %i the announced body may never have come",
  (status) => {
    const line = (more: object) =>
      JSON.stringify({ ts: 0, request: { host: "a.test" }, duration: 60, status, ...more });
    expect(parseLine(line({ user_id: "100" }))?.bytesIn).toBe(0);
    expect(parseLine(line({ user_id: "100", bytes_read: 7 }))?.bytesIn).toBe(7);
  },
);

test.each(["shop.test", "shop.test:8080", "SHOP.test", "shop.test.", "Shop.TEST.:80", "shop.test:"])(
  "%s names shop.test",
  (said) => expect(hostOf(said)).toBe("shop.test"),
);

test("counts are kept apart by project, channel and hour, and by class of status", () => {
  const counts: Counts = new Map();
  const visit = { host: "a.test", hour: 5, bytesIn: 1, bytesOut: 10 };
  const shop = { projectId: "p1", channel: "production", unmetered: false };
  for (const status of [200, 204, 301, 404, 500, 101, 0]) addVisit(counts, shop, { ...visit, status });
  addVisit(counts, { ...shop, channel: "dev" }, { ...visit, status: 200 });
  addVisit(counts, shop, { ...visit, hour: 6, status: 200 });
  addVisit(counts, { ...shop, projectId: "p2" }, { ...visit, status: 200 });
  addVisit(counts, { ...shop, unmetered: true }, { ...visit, status: 503 });
  expect(counts.size).toBe(5);
  const [first] = counts.values();
  expect(first).toEqual({
    ...{ projectId: "p1", channel: "production", hour: 5, requests: 7, bytesIn: 7, bytesOut: 70, unmetered: false },
    ...{ status2xx: 2, status3xx: 1, status4xx: 1, status5xx: 1 },
  });
  if (first !== undefined) addCount(counts, { ...first });
  expect(first).toMatchObject({ requests: 14, bytesOut: 140, status2xx: 4 });
});
