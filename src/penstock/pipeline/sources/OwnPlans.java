package penstock;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;

/**
 * A rule of Spark's optimiser: wherever a query reads one of our sources it gets a table of its own, before filters are
 * pushed. What is planned for a filter is kept in that table, so it can reach no other place and no other query.
 *
 * Written for Janino, the compiler within Spark, which knows little of generics and no lambdas. It is its own builder:
 * asked for the rule of a session it gives itself.
 */
public class OwnPlans extends Rule implements scala.Function1 {
    private final Map own = Collections.synchronizedMap(new WeakHashMap());

    public Object apply(Object given) {
        return given instanceof LogicalPlan ? rewritten((LogicalPlan) given) : this;
    }

    public TreeNode apply(TreeNode plan) {
        return rewritten((LogicalPlan) plan);
    }

    private LogicalPlan rewritten(LogicalPlan plan) {
        return (LogicalPlan) plan.transform(new Exchange(this));
    }

    boolean concerns(Object node) {
        if (!(node instanceof DataSourceV2Relation)) {
            return false;
        }
        Object table = ((DataSourceV2Relation) node).table();
        // Spark applies rules until nothing changes any more.
        return table instanceof PythonTable && isOurs((PythonTable) table) && !own.containsKey(table);
    }

    private static boolean isOurs(PythonTable table) {
        String name = table.name();
        return name.equals("flv") || name.equals("penstock_recordings");
    }

    LogicalPlan withOwnTable(DataSourceV2Relation relation) {
        Object[] parts = new Object[relation.productArity()];
        for (int place = 0; place < parts.length; place++) {
            Object part = relation.productElement(place);
            parts[place] = part == relation.table() ? copyOf((PythonTable) relation.table()) : part;
        }
        return (LogicalPlan) relation.makeCopy(parts);
    }

    private PythonTable copyOf(PythonTable table) {
        try {
            String name = (String) field(PythonTable.class, "shortName").get(table);
            StructType schema = (StructType) field(PythonTable.class, "outputSchema").get(table);
            Object shared = field(PythonTable.class, "ds").get(table);
            PythonDataSourceV2 source = new PythonDataSourceV2();
            source.setShortName(name);
            // The source as it was loaded, so that Python is not asked for it again.
            Field loaded = field(PythonDataSourceV2.class, "dataSourceInPython");
            loaded.set(source, loaded.get(shared));
            PythonTable copy = new PythonTable(source, name, schema);
            own.put(copy, Boolean.TRUE);
            return copy;
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("this Spark keeps Python sources in another way", error);
        }
    }

    static Field field(Class holder, String name) throws ReflectiveOperationException {
        Field found = holder.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    /** Called when a rule is made, so that a Spark in which it would fail is known before the first query. */
    public static void check() throws ReflectiveOperationException {
        field(PythonTable.class, "shortName");
        field(PythonTable.class, "outputSchema");
        field(PythonTable.class, "ds");
        field(PythonDataSourceV2.class, "dataSourceInPython");
        // Where what was planned is kept. A Spark without this keeps it with each scan, and needs no such rule.
        field(PythonDataSourceV2.class, "readInfo");
    }

    /** What the rule does at each node of a plan. */
    public static class Exchange extends scala.runtime.AbstractPartialFunction {
        private final OwnPlans rule;

        public Exchange(OwnPlans rule) {
            this.rule = rule;
        }

        public boolean isDefinedAt(Object node) {
            return rule.concerns(node);
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            return rule.concerns(node) ? rule.withOwnTable((DataSourceV2Relation) node) : otherwise.apply(node);
        }
    }
}
