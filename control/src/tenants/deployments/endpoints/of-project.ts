import { idParams, limits, projectDetailReply } from "@svc/proto";
import { endpoint } from "../../endpoint.ts";
import { getProject } from "../../projects/store.ts";
import { projectView } from "../../projects/view.ts";
import { listDeployments } from "../listing.ts";
import { deploymentListView, viewerFor } from "../view.ts";

export const projectDetail = endpoint({
  method: "GET",
  path: "/projects/:id",
  access: { scope: "projects:read" },
  summary: "One project with its newest production and dev deployments.",
  params: idParams,
  reply: projectDetailReply,
  async handle({ db, config, fleet }, { caller, params }) {
    const { id } = params;
    // Each looks itself whether the caller may see what it returns, so none waits for another.
    const [project, production, dev] = await Promise.all([
      getProject(db, caller, id),
      listDeployments(db, caller, id, { channel: "production" }, limits.productionDeploymentsInDetail),
      listDeployments(db, caller, id, { channel: "dev" }, limits.devDeploymentsInDetail),
    ]);
    const deployments = [...production, ...dev].sort((a, b) => b.number - a.number);
    return {
      project: projectView(project, config.content),
      deployments: deployments.map((each) => deploymentListView(each, viewerFor(caller, { config, fleet }))),
    };
  },
});
