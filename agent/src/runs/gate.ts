// @pure
import type { ContainerState } from "../engine/engine.ts";
import { gateDirectory } from "../engine/gate-directory.ts";

// A run's container has a directory of its own, the gate. Before the command begins, the container makes a file there, and the
// agent can make a directory of the same name instead. One of the two is first, and that decides for good: what the
// engine does late, twice or unnoticed runs nothing once the gate is shut.

/** What is made in it: a file by the container, a directory by the agent. */
export const gateName = "claim";
/** What a container exits with that found the gate shut, or could not claim it. */
export const heldBack = 75;

// `set -C`: a redirection makes its file or fails. Nothing is started for it, so the image needs no program but its shell.
const script = `set -C; { true >${gateDirectory}/${gateName}; } 2>/dev/null || exit ${heldBack}; set +C; exec /bin/sh -c "$1"`;

/** What a container is made to do: claim the gate, and then become the command's shell. */
export const gatedCommand = (command: string): string[] => ["/bin/sh", "-c", script, "svc-gate", command];

/**
 * - `none`: the container was made by an agent of the version before, and has no gate
 * - `open`: nobody has been there
 * - `claimed`: the command was started
 * - `shut`: the agent was first, so it never will be
 * - `gone`: the directory is not there any more
 */
export type Gate = "none" | "open" | "claimed" | "shut" | "gone";

/** What is known of an attempt that the engine was told to start, when nobody knows whether it did. */
export interface Situation {
  gate: Gate;
  /** Undefined when the engine does not say. */
  container: ContainerState | "absent" | undefined;
  /**
   * The order was given in this boot of the machine. What a container wrote just before the power went may be lost, its
   * claim too.
   */
  isSameBoot: boolean;
}

/**
 * - `runs`: it was started; the engine says how it ends
 * - `never`: it was not and never will be started
 * - `shut`: the gate has to be shut, and looked at again
 * - `wait`: the engine has to say more
 * - `unknown`: nobody can tell
 */
export type Verdict = "runs" | "never" | "shut" | "wait" | "unknown";

export function judge({ gate, container, isSameBoot }: Situation): Verdict {
  if (gate === "shut") return "never";
  // A gate that is open is shut and not only read: the order to start may still be on its way inside the engine.
  if (gate === "open" && isSameBoot) return "shut";
  if (container === "running" || container === "exited") return "runs";
  if (gate === "claimed" && container !== "absent") return container === undefined ? "runs" : "wait";
  return container === undefined || container === "other" ? "wait" : "unknown";
}
