import { fileURLToPath } from "node:url";
import { getProgram } from "@svc/runtime/programs";
import { type Browser, chromium } from "playwright-core";
import { rolldown } from "rolldown";

const browserArguments = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
];

export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: getProgram("chromium"), args: browserArguments });

/** The page of `page.ts` with client, hook and React in it, as in development: React mounts twice there. */
export async function bundlePage(): Promise<string> {
  const bundle = await rolldown({
    input: fileURLToPath(new URL("page.ts", import.meta.url)),
    platform: "browser",
    transform: { define: { "process.env.NODE_ENV": '"development"' } },
    logLevel: "silent",
  });
  try {
    const { output } = await bundle.generate({ format: "esm" });
    return `<!doctype html><main></main><script type="module">${output[0].code.replaceAll("</script", "<\\/script")}</script>`;
  } finally {
    await bundle.close();
  }
}
