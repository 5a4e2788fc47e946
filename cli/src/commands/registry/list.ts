import { registryCredentialListReply } from "@svc/proto";
import { command, flag } from "../../command.ts";
import { formatAge } from "../../format.ts";
import { listing } from "../../listing.ts";
import { getProject, projectFacts } from "../../target.ts";

export const registryList = command({
  name: "registry list",
  summary: "List the registries that the project has a credential for",
  details: "Projects of type ociimage only. User names and secrets are never shown.",
  flags: { project: flag.project },
  examples: ["svc registry list", "svc registry list --project shop --json"],
  async run(context, { project: named }) {
    const { project } = await getProject(context, named);
    const api = await context.api();
    const reply = await api.get(`/projects/${project.id}/registry-credentials`, registryCredentialListReply);
    const credentials = reply.credentials.map(({ host, configured, createdAt, updatedAt }) => ({
      host,
      configured,
      createdAt,
      updatedAt,
    }));
    return { project: projectFacts(project), credentials };
  },
  render: ({ credentials }, screen) => {
    if (credentials.length === 0)
      return "No credentials yet. Store one with `svc registry set <host> --username <name>`";
    const header = ["REGISTRY", "STORED", "CHANGED"];
    const rows = credentials.map(({ host, createdAt, updatedAt }) => [
      host,
      formatAge(createdAt, screen.now),
      formatAge(updatedAt, screen.now),
    ]);
    return listing(header, rows, screen);
  },
});
