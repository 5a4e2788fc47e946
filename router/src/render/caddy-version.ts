// @pure

/** The oldest Caddy that this configuration was tried with; it is Debian 12's. */
const floor = [2, 6, 2] as const;

const read = (caddyVersion: string): [number, number, number] | null => {
  const [, major, minor, patch = "0"] = /^v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(caddyVersion) ?? [];
  return major === undefined || minor === undefined ? null : [Number(major), Number(minor), Number(patch)];
};

/** Whether it is so new. Unknown versions count as new. */
function isAtLeast(caddyVersion: string, wanted: readonly number[]): boolean {
  const version = read(caddyVersion);
  if (version === null) return true;
  const at = version.findIndex((part, index) => part !== (wanted[index] ?? 0));
  return at === -1 || (version[at] ?? 0) > (wanted[at] ?? 0);
}

/** Whether it is 2.<minor> or later. */
export const isSince = (caddyVersion: string, minor: number): boolean => isAtLeast(caddyVersion, [2, minor]);

/** The permission to get a certificate is a module from 2.8 on, and one address before. */
export const permissionModule = (caddyVersion: string): boolean => isSince(caddyVersion, 8);

/** What to tell an operator whose Caddy is too old; null when it will do. */
export const caddyProblem = (caddyVersion: string): string | null =>
  isAtLeast(caddyVersion, floor)
    ? null
    : `this is Caddy ${caddyVersion.split(" ")[0]}, and at least ${floor.join(".")} is needed: older ones do not ask for certificates as this edge has them`;
