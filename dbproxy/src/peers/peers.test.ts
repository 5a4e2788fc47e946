import { databaseProxyAnswer, databaseProxyDial } from "@svc/proto/database-proxy";
import fc from "fast-check";
import { expect, test } from "vitest";
import { frameBytes, readFrame, writeFrame } from "./frame.ts";
import { edgeOf, nodeOf } from "./peer.ts";

const [clusterId, id] = ["0b8f6c1e-6f0c-4d8e-9a3b-2f1d5c7e9a01", "7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b"];
const dial = { databaseId: id, epoch: "7", purpose: "session" } as const;

test("a frame is read as it was written", () => {
  const frame = writeFrame(dial);
  expect(frameBytes(frame)).toBe(frame.length - 2);
  expect(readFrame(frame.subarray(2), databaseProxyDial)).toEqual(dial);
});

const copyDial = { ...dial, purpose: "copy", copyId: clusterId } as const;
test("a keeper's dial names its copy", () => {
  expect(readFrame(writeFrame(copyDial).subarray(2), databaseProxyDial)).toEqual(copyDial);
});

test.each([
  ...[
    { ...dial, purpose: "copy" },
    { ...copyDial, purpose: "session" },
    { ...copyDial, copyId: "all" },
  ],
  ...[{ ...dial, more: 1 }, { ...dial, epoch: "-1" }, { ...dial, purpose: "admin" }, { databaseId: id }, []],
])("%j is no dial", (value) => {
  expect(readFrame(Buffer.from(JSON.stringify(value)), databaseProxyDial)).toBeNull();
});

test("a damaged dial is one that could have been written, or none", () => {
  const text = JSON.stringify(copyDial);
  const changes = fc.array(fc.tuple(fc.nat(text.length - 1), fc.nat(255)), { maxLength: 3 });
  fc.assert(
    fc.property(changes, fc.nat(text.length), fc.boolean(), (damage, end, isCut) => {
      const bytes = Buffer.from(isCut ? text.slice(0, end) : text);
      for (const [at, value] of damage) if (at < bytes.length) bytes[at] = value;
      const read = readFrame(bytes, databaseProxyDial);
      if (read === null) return;
      expect(readFrame(writeFrame(read).subarray(2), databaseProxyDial)).toEqual(read);
      expect("copyId" in read).toBe(read.purpose === "copy");
    }),
    { numRuns: 5_000 },
  );
});

test("what is no JSON, or no answer, is none", () => {
  for (const text of ["{", "{}", '{"answer":"refused"}', '{"answer":"ok","why":"away"}']) {
    expect(readFrame(Buffer.from(text), databaseProxyAnswer)).toBeNull();
  }
});

test.each([0, 1025, 65_535])("a frame does not have %i bytes", (bytes) => {
  expect(frameBytes(Buffer.from([bytes >> 8, bytes & 255]))).toBeNull();
});

test.each([
  { who: "a node of the cluster", name: `URI:spiffe://${clusterId}/node/${id}/1`, is: id },
  { who: "an edge", name: `URI:spiffe://${clusterId}/edge/${id}/1`, is: null },
  { who: "a node of another cluster", name: `URI:spiffe://${id}/node/${id}/1`, is: null },
  { who: "control", name: "DNS:control.svc.internal", is: null },
  { who: "nobody", name: undefined, is: null },
])("the certificate of $who", ({ name, is }) => {
  expect(nodeOf(name, clusterId)).toBe(is);
});

test.each([
  { who: "an edge of the cluster", name: `URI:spiffe://${clusterId}/edge/${id}/1`, is: id },
  { who: "a node", name: `URI:spiffe://${clusterId}/node/${id}/1`, is: null },
  { who: "an edge of another cluster", name: `URI:spiffe://${id}/edge/${id}/1`, is: null },
  { who: "an edge with two names", name: `URI:spiffe://${clusterId}/edge/${id}/1, DNS:a.test`, is: null },
])("to edges only: the certificate of $who", ({ name, is }) => {
  expect(edgeOf(name, clusterId)).toBe(is);
});
