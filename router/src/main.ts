import { resolve } from "node:path";
import { CaddyError } from "./caddy.ts";
import { ConfigError, readConfig } from "./config.ts";
import { bootConfig } from "./render/render.ts";
import { start } from "./start.ts";

const usage = `usage:
  router               run the router (the default)
  router boot-config   print the configuration that Caddy is to be started with:
                       caddy run --resume --config FILE`;

async function serve(): Promise<void> {
  const stop = new Promise<void>((done) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => done());
  });
  await using _router = await start(readConfig(process.env));
  await stop;
}

try {
  const [command = "serve", ...rest] = process.argv.slice(2);
  if (command === "serve" && rest.length === 0) await serve();
  else if (command === "boot-config" && rest.length === 0) {
    console.log(JSON.stringify(bootConfig(resolve(readConfig(process.env).adminSocket))));
  } else {
    console.error(usage);
    process.exitCode = 2;
  }
} catch (cause) {
  if (!(cause instanceof ConfigError) && !(cause instanceof CaddyError)) throw cause;
  console.error(cause.message);
  process.exitCode = 1;
}
