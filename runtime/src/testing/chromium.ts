import { getProgram } from "../programs.ts";

/** How every test starts Chromium: `chromium.launch(chromiumLaunch())`. It asks nobody on the network for anything by itself. */
export const chromiumLaunch = (...more: readonly string[]) => ({
  executablePath: getProgram("chromium"),
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    ...more,
  ],
});
