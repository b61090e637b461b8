/* The aggregators on one neighbourhood, as meanmax.functional defines them, in double precision.
   Powers and exponentials are taken relative to the largest neighbour, so that nothing overflows. */

const aggregate = {
  total: weights => weights.reduce((sum, a) => sum + a, 0),

  sum: (values, weights) => values.reduce((sum, z, u) => sum + weights[u] * z, 0),

  mean(values, weights) {
    const total = aggregate.total(weights);
    return total === 0 ? 0 : aggregate.sum(values, weights) / total;
  },

  max: (values, weights) => {
    const there = values.filter((_, u) => weights[u] > 0);
    return there.length ? Math.max(...there) : 0;
  },

  /* Σ a f(z) over the neighbours that have weight: far above them, f of one that has none may be infinite */
  weighted: (values, weights, f) => values.reduce((sum, z, u) => (weights[u] > 0 ? sum + weights[u] * f(z) : sum), 0),

  /* (Σ a y^p)^(1/p) + μ A^(1/p) with y = z − μ */
  lp(values, weights, p) {
    const total = aggregate.total(weights);
    if (total === 0) return 0;
    const mu = Math.min(...values);
    const top = aggregate.max(values, weights) - mu;
    const shift = mu * total ** (1 / p);
    if (top === 0) return shift;
    const powers = aggregate.weighted(values, weights, z => ((z - mu) / top) ** p);
    return top * powers ** (1 / p) + shift;
  },

  /* Σ a y^(α+1) / Σ a y^α + μ; 0^0 is 1 */
  polynomial(values, weights, alpha) {
    if (aggregate.total(weights) === 0) return 0;
    const mu = Math.min(...values);
    const top = aggregate.max(values, weights) - mu;
    if (top === 0) return mu;
    const tilt = z => ((z - mu) / top) ** alpha;
    return aggregate.weighted(values, weights, z => tilt(z) * (z - mu)) / aggregate.weighted(values, weights, tilt) + mu;
  },

  /* Σ a z e^(γz) / Σ a e^(γz) */
  softmax(values, weights, gamma) {
    if (aggregate.total(weights) === 0) return 0;
    const top = aggregate.max(values, weights);
    const tilt = z => Math.exp(gamma * (z - top));
    return aggregate.weighted(values, weights, z => tilt(z) * (z - top)) / aggregate.weighted(values, weights, tilt) + top;
  },

  /* How far an output is on the way from mean to max, from 0 to 1. */
  maxness(output, mean, max) {
    return max > mean ? (output - mean) / (max - mean) : null;
  },
};
