import { expect, test } from "vitest";
import { pickNode } from "./nodes.ts";

const nodes = [
  { id: "1", name: "a", status: "ready" },
  { id: "2", name: "b", status: "ready" },
  { id: "3", name: "b", status: "ready" },
  { id: "a", name: "2", status: "ready" },
];

test("a machine is found by id, then by a name that only it has", () => {
  expect(pickNode(nodes, "1").id).toBe("1");
  expect(pickNode(nodes, "2").id).toBe("2");
  expect(pickNode(nodes, "a").id).toBe("a");
});

test("a name of several is refused with their ids, and an unknown one is not found", () => {
  expect(() => pickNode(nodes, "b")).toThrow(
    expect.objectContaining({ code: "CLI_INVALID_USAGE", hint: expect.stringContaining("2, 3") }),
  );
  expect(() => pickNode(nodes, "c")).toThrow(expect.objectContaining({ code: "CLOUD_NOT_FOUND" }));
});

test("a name means the machine that has it now, not one that was removed", () => {
  const [old, older] = ["8", "9"].map((id) => ({ id, name: "c", status: "removed" }));
  const living = { id: "7", name: "c", status: "fenced" };
  if (old === undefined || older === undefined) throw new Error("there are two");
  expect(pickNode([old, living, older], "c")).toBe(living);
  expect(pickNode([old], "c")).toBe(old);
  expect(() => pickNode([old, older], "c")).toThrow(/Several/);
});
