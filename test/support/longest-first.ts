import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Files that take minutes, or much longer than their size says, by which files are begun that no earlier run has measured. Begun last,
 * they would go on by themselves when everything beside them is done.
 */
const minutes = [
  "test/sim/simulator.test.ts",
  "test/scenarios/one-platform.test.ts",
  "test/scenarios/crash.test.ts",
  "test/scenarios/redeploy.test.ts",
  "test/scenarios/database-copies.test.ts",
  "test/scenarios/database-offsite.test.ts",
  "control/src/tenants/databases/sql/transfers.system.test.ts",
  "control/src/tenants/admin/key-rotation/command.system.test.ts",
  "control/src/http/proof/door.system.test.ts",
  "control/src/identity/pages/pages.system.test.ts",
  "cli/src/mcp/tools.system.test.ts",
  "agent/src/keepers/copy-room.system.test.ts",
  "agent/src/keepers/copy-following.system.test.ts",
  "agent/src/keepers/copy-restore.system.test.ts",
  "agent/src/keepers/copy-dumps.system.test.ts",
];

/** Of what runs beside one another the longest files come first. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => minutes.some((name) => moduleId.endsWith(`/${name}`));
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
