import { type Argv, spawnProgram } from "@svc/runtime/programs";

/** The program that opens a web address, with its arguments. No shell: the address is one argument, whatever is in it. */
export function browserCommand(platform: NodeJS.Platform, url: string): Argv {
  if (platform === "darwin") return ["open", url];
  if (platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler", url];
  return ["xdg-open", url];
}

/** Opens `url`, which `webUrl` has checked, in the person's browser. That there is none is not our failure. */
export function openBrowser(url: string): void {
  const child = spawnProgram(browserCommand(process.platform, url), { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}
