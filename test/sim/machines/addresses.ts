/** Where apps of a node are reached: edges take nothing but numbers. */
export const addressOf = (nodeId: string): string => `10.0.0.${nodeId.slice(1)}`;

/** The node whose apps are reached at the machine of an upstream. */
export const nodeAt = (upstream: string): string => `n${upstream.split(":")[0]?.split(".").at(-1) ?? ""}`;

/** What daemons call a node: tables of databases take nothing but such ids. */
export const machineIdOf = (nodeId: string): string =>
  `00000000-0000-4000-8000-${nodeId.replace(/^[^0-9]+/, "").padStart(12, "0")}`;
