import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { expect, test } from "vitest";
import { createSilenceWatch, decodeTrace } from "./trace.ts";

test("steps and their output are read, the rest is skipped", () => {
  const vertex = new BinaryWriter()
    .tag(1, WireType.LengthDelimited)
    .string("sha256:ab")
    .tag(2, WireType.LengthDelimited)
    .string("sha256:input")
    .tag(3, WireType.LengthDelimited)
    .string("[1/2] RUN x")
    .tag(4, WireType.Varint)
    .bool(true)
    .tag(5, WireType.LengthDelimited)
    .bytes(new BinaryWriter().tag(1, WireType.Varint).int64(5).finish())
    .tag(7, WireType.LengthDelimited)
    .string("exit code: 1")
    .finish();
  const log = new BinaryWriter()
    .tag(1, WireType.LengthDelimited)
    .string("sha256:ab")
    .tag(3, WireType.Varint)
    .int64(1)
    .tag(4, WireType.LengthDelimited)
    .bytes(Buffer.from("hello\n"))
    .finish();
  const message = new BinaryWriter()
    .tag(1, WireType.LengthDelimited)
    .bytes(vertex)
    .tag(2, WireType.LengthDelimited)
    .bytes(Buffer.from([8, 1]))
    .tag(3, WireType.LengthDelimited)
    .bytes(log)
    .finish();
  expect(decodeTrace(message)).toEqual({
    vertexes: [
      {
        digest: "sha256:ab",
        name: "[1/2] RUN x",
        cached: true,
        started: true,
        completed: false,
        error: "exit code: 1",
      },
    ],
    logs: [{ vertex: "sha256:ab", text: Buffer.from("hello\n") }],
  });
});

test("an engine is silent that says nothing a thousand times in a row, and not before", () => {
  const isSilent = createSilenceWatch();
  const say = (message: string, times: number) => Array.from({ length: times }, () => isSilent(message));
  expect(say("", 999)).not.toContain(true);
  expect(isSilent("CgA=")).toBe(false);
  expect(say("", 999)).not.toContain(true);
  expect(isSilent("")).toBe(true);
});
