import { species } from "../species.js";

export const GET = () => Response.json(species.map(({ slug, name }) => ({ slug, name })));
