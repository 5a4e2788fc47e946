import { fileURLToPath } from "node:url";
import { chromiumLaunch } from "@svc/runtime/testing/chromium";
import { type Browser, chromium } from "playwright-core";
import { rolldown } from "rolldown";

export const launchBrowser = (): Promise<Browser> => chromium.launch(chromiumLaunch());

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
