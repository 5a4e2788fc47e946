// @pure
import { type Channel, channels, plural } from "@svc/proto";

/** Names of the variables of each layer of a project's environment. */
export interface EnvNames {
  base: readonly string[];
  overlays: Readonly<Record<Channel, readonly string[]>>;
}

/** The names after one layer was replaced: the overlay of `channel`, or the base for null. */
export const withLayer = ({ base, overlays }: EnvNames, channel: Channel | null, names: readonly string[]): EnvNames =>
  channel === null ? { base: names, overlays } : { base, overlays: { ...overlays, [channel]: names } };

/**
 * Why an environment has more variables than `max`, or null. What a deployment of one channel gets is counted, so a
 * variable that an overlay only changes counts once.
 */
export function quotaProblem({ base, overlays }: EnvNames, max: number): string | null {
  if (base.length > max) return `The plan allows ${plural(max, "variable")} per project.`;
  for (const channel of channels) {
    const count = new Set([...base, ...overlays[channel]]).size;
    if (count > max)
      return `The plan allows ${plural(max, "variable")} per project. Together with those of the ${channel} channel there would be ${count}.`;
  }
  return null;
}

/**
 * What a deployment is given by its owner: variables of its env files under the project's own, these under those of
 * its channel. The platform's facts go over all of them when it is started.
 */
export const layered = (
  fileEnv: Readonly<Record<string, string>>,
  base: Readonly<Record<string, string>>,
  overlay: Readonly<Record<string, string>>,
): Record<string, string> => ({ ...fileEnv, ...base, ...overlay });
