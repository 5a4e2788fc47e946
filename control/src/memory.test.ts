import { execFileSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";

const memory = pathToFileURL(`${import.meta.dirname}/memory.ts`).href;

/** What a program of its own prints: these are settings of a whole process. */
function inProcess(program: string): unknown {
  const output = execFileSync(process.execPath, ["--max-semi-space-size=1", "--input-type=module", "--eval", program]);
  return JSON.parse(output.toString());
}

/** The largest heap of a program that holds much and makes as much garbage again that lives for a while. */
const churn = `
  const held = Array.from({ length: 400_000 }, (_, n) => ({ n, text: ["held", n] }));
  const passing = new Array(20_000);
  globalThis.held = held;
  let largest = 0;
  for (let n = 0; n < 4_000_000; n += 1) {
    passing[n % passing.length] = { n, text: ["passing", n] };
    if (n % 10_000 === 0) largest = Math.max(largest, process.memoryUsage().heapUsed);
  }
  console.log(Math.round(largest / 1024 ** 2));
`;

test("the heap stays near to what is in use", () => {
  const usual = inProcess(churn);
  const spared = inProcess(`import { spareMemory } from ${JSON.stringify(memory)}; spareMemory(); ${churn}`);
  expect(spared).toBeLessThan(usual as number);
});

test("a small buffer that lives keeps little else", () => {
  const slabBytes = inProcess(`
    import { spareMemory } from ${JSON.stringify(memory)};
    spareMemory();
    // What Node had begun before is used up first.
    for (let n = 0; n < 100_000; n += 1) Buffer.from([1, 2, 3]);
    console.log(Buffer.from([1, 2, 3]).buffer.byteLength);
  `);
  expect(slabBytes).toBe(2_048);
});
