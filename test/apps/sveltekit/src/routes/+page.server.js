import { loaves } from "../loaves.js";

const edition = "first edition";

export const load = ({ url }) => ({
  edition,
  loaves,
  origin: url.origin,
  port: process.env.PORT,
  publicUrl: process.env.SVC_PUBLIC_URL,
});

export const actions = {
  async rate({ request }) {
    const form = await request.formData();
    return { rated: `${form.get("loaf")} gets ${form.get("stars")} of 5` };
  },
};
