import manifest from "../package.json" with { type: "json" };

/** Of svc: its programs are released together. */
export const { version } = manifest;
