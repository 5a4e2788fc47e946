import manifest from "../package.json" with { type: "json" };

/** The version of the command line. */
export const version: string = manifest.version;
