export default defineEventHandler(() => ({
  knots: 14,
  place: "Long Strand",
  port: process.env.PORT,
  publicUrl: process.env.SVC_PUBLIC_URL,
}));
