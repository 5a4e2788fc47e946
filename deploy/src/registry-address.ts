import type { ProgramSpec } from "./program.ts";

export interface LocalRegistry {
  spec: ProgramSpec;
  /** host:port, as it stands in image references. */
  host: string;
  url: string;
}
