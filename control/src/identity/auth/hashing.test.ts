import { expect, test } from "vitest";
import { createLine } from "./hashing.ts";

/** Work that ends when it is told to. */
function works(count: number) {
  const begun: number[] = [];
  const ends = Array.from({ length: count }, () => Promise.withResolvers<number>());
  const work = (at: number) => () => {
    begun.push(at);
    return ends[at]?.promise ?? Promise.resolve(-1);
  };
  return { begun, ends, work };
}

test("two run at once, the others in their order, and who finds the line full is told when to come back", async () => {
  const line = createLine({ atOnce: 2, waitingMax: 2 });
  const { begun, ends, work } = works(4);
  const done = [0, 1, 2, 3].map((at) => line.inTurn(work(at)));
  expect(begun).toEqual([0, 1]);
  await expect(line.inTurn(async () => 0)).rejects.toMatchObject({
    statusCode: 503,
    body: { code: "UNAVAILABLE" },
    headers: { "retry-after": "5" },
  });
  ends[1]?.resolve(1);
  await done[1];
  await expect.poll(() => begun).toEqual([0, 1, 2]);
  ends[0]?.reject(new Error("no memory"));
  await expect(done[0]).rejects.toThrow("no memory");
  await expect.poll(() => begun).toEqual([0, 1, 2, 3]);
  ends[2]?.resolve(2);
  ends[3]?.resolve(3);
  expect(await Promise.all(done.slice(2))).toEqual([2, 3]);
  expect(await line.inTurn(async () => 4)).toBe(4);
});

test("a line that has emptied runs as many at once as before", async () => {
  const line = createLine({ atOnce: 1, waitingMax: 1 });
  for (let round = 0; round < 3; round++)
    expect(await Promise.all([line.inTurn(async () => "a"), line.inTurn(async () => "b")])).toEqual(["a", "b"]);
});
