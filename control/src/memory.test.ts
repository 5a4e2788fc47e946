import { pathToFileURL } from "node:url";
import { runProgramSync, thisNode } from "@svc/runtime/programs";
import { expect, test } from "vitest";

const memory = pathToFileURL(`${import.meta.dirname}/memory.ts`).href;

/**
 * What a program of its own prints: these are settings of a whole process. It collects by itself exactly when its heap has
 * become as large as it may.
 */
function inProcess(program: string): number {
  const flags = ["--max-semi-space-size=1", "--single-threaded", "--no-incremental-marking", "--expose-gc"];
  return Number(runProgramSync([thisNode, ...flags, "--input-type=module", "--eval", program]).toString());
}

const spare = `import { spareMemory } from ${JSON.stringify(memory)}; spareMemory();`;

/** How much larger than what it holds the heap becomes of a program that makes garbage which lives for a while. */
const growth = `
  globalThis.held = Array.from({ length: 200_000 }, (_, n) => ({ n, text: ["held", n] }));
  gc();
  const heldBytes = process.memoryUsage().heapUsed;
  const passing = new Array(20_000);
  let largest = 0;
  for (let n = 0; n < 1_000_000; n += 1) {
    passing[n % passing.length] = { n, text: ["passing", n] };
    if (n % 2_000 === 0) largest = Math.max(largest, process.memoryUsage().heapUsed);
  }
  console.log(largest / heldBytes);
`;

test("the heap stays near to what is in use", () => {
  expect(inProcess(spare + growth) * 2).toBeLessThan(inProcess(growth));
});

test("a small buffer that lives keeps little else", () => {
  const slabBytes = inProcess(`
    ${spare}
    // What Node had begun before is used up first.
    for (let n = 0; n < 100_000; n += 1) Buffer.from([1, 2, 3]);
    console.log(Buffer.from([1, 2, 3]).buffer.byteLength);
  `);
  expect(slabBytes).toBe(2_048);
});
