// Loaded before a program of the platform: its time of day is so many ms off as a file says, which is read again and again.
// Clocks that only grow stay as they are, as they do when somebody sets a machine's clock. See wall-clock.ts.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const file = join(process.env["FAULT_CLOCKS"] ?? "", process.env["SVC_API_LISTEN"] ?? "none");
const lookEveryMs = 50;

function read(): number {
  try {
    // An empty file is being written.
    return Number(readFileSync(file, "utf8") || aheadMs);
  } catch {
    return 0;
  }
}

const Real = Date;
let aheadMs = 0;
aheadMs = read();
setInterval(() => {
  aheadMs = read();
}, lookEveryMs).unref();

class OffDate extends Real {
  constructor(...of: []) {
    if (of.length === 0) super(Real.now() + aheadMs);
    else super(...of);
  }
  static override now(): number {
    return Real.now() + aheadMs;
  }
}
globalThis.Date = new Proxy(OffDate, {
  // Without `new` it is a text.
  apply: () => new OffDate().toString(),
}) as unknown as DateConstructor;
