import { systemClock } from "@svc/runtime/system";
import { defaultCacheDir } from "../paths.ts";
import { buildEdgeCaddy } from "./build.ts";

const say = (line: string) => console.error(`svc: ${line}`);

try {
  const path = await buildEdgeCaddy({
    clock: systemClock,
    cacheDir: defaultCacheDir(process.env),
    env: process.env,
    log: say,
  });
  say(
    "this Caddy has the module, and is what `npm start` takes from now on; SVC_CADDY_BINARY names it to a router of your own:",
  );
  console.log(path);
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
