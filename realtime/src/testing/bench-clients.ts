/** A process with a thousand of the package's own clients: says how long all of them were away, whenever all are back. */

import { performance } from "node:perf_hooks";
import { subscribe } from "../client.ts";

const [url = "", count = "1000"] = process.argv.slice(2);
let open = 0;
let leftAt: number | null = null;
for (let at = 0; at < Number(count); at += 1) {
  subscribe({
    url,
    onEvent: () => {},
    onStatus(status) {
      if (status === "reconnecting") {
        leftAt ??= performance.now();
        open -= 1;
      }
      if (status === "open") open += 1;
      if (open < Number(count)) return;
      process.send?.([leftAt === null ? 0 : performance.now() - leftAt]);
      leftAt = null;
    },
  });
}
