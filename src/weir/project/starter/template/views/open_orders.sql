-- Open orders with their customers, over two databases.
-- strong: the view moves from one consistent state to a later one, and may skip states between.
CREATE MATERIALIZED VIEW open_orders WITH (consistency = 'strong') AS
SELECT o.id, o.day, c.id AS customer, c.name, c.city
FROM sales.orders o
JOIN crm.customer c ON c.id = o.customer
WHERE o.status = 'open'
