import { registerHooks } from "node:module";
import { patchedSource } from "./mutants/patchable.ts";

// Before anything of the product is loaded: functions of it that a planted bug may replace are loaded so that it can.
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    const source = patchedSource(url, () => String(loaded.source));
    return source === null ? loaded : { ...loaded, source };
  },
});
await import("./run.ts");
