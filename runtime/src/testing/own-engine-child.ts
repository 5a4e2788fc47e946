import { startOwnEngine } from "./own-engine.ts";

/** Starts an engine, says where it listens, and waits to be killed. */
process.once("disconnect", () => process.exit());
const { socketPath } = await startOwnEngine({ dataMb: 100 });
process.send?.(socketPath);
