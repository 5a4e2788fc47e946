import { command } from "../../command.ts";
import { branchFlags, findBranch } from "../../database/branch.ts";
import { getSchema, renderTable, renderView } from "../../database/schema.ts";

export const dbSchema = command({
  name: "db schema",
  summary: "Show the tables and views of a database",
  flags: branchFlags,
  examples: ["svc db schema", "svc db schema --channel preview --json"],
  async run(context, { project: named, channel = "production" }) {
    const branch = await findBranch(context, named, channel);
    return { project: branch.project, ...(await getSchema(context, branch)) };
  },
  render: ({ tables, views }, { paint }) => {
    if (tables.length + views.length === 0)
      return "It has no tables yet. Make some with `svc db migrate` or `svc db query`";
    return [...tables.map((each) => renderTable(each, paint)), ...views.map((each) => renderView(each, paint))].join(
      "\n\n",
    );
  },
});
