import { databaseProxyAnswer, databaseProxyDial } from "@svc/proto/database-proxy";
import { expect, test } from "vitest";
import { frameBytes, readFrame, writeFrame } from "./frame.ts";
import { nodeOf } from "./peer.ts";

const [clusterId, id] = ["0b8f6c1e-6f0c-4d8e-9a3b-2f1d5c7e9a01", "7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b"];
const dial = { databaseId: id, epoch: "7", purpose: "session" } as const;

test("a frame is read as it was written", () => {
  const frame = writeFrame(dial);
  expect(frameBytes(frame)).toBe(frame.length - 2);
  expect(readFrame(frame.subarray(2), databaseProxyDial)).toEqual(dial);
});

test.each([{ ...dial, more: 1 }, { ...dial, epoch: "-1" }, { ...dial, purpose: "admin" }, { databaseId: id }, []])(
  "%j is no dial",
  (value) => {
    expect(readFrame(Buffer.from(JSON.stringify(value)), databaseProxyDial)).toBeNull();
  },
);

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
